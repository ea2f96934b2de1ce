"""Units of sizes, in bytes."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
