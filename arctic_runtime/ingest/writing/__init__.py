"""Events of all transports are decoded, folded to net rows and published, one commit per table and batch."""
