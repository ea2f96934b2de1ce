"""The Java side of Spark: its JARs, its JVM, and Java's errors."""
