"""Source database servers that Debezium reads: checks of rights and settings, catalogs, and the order of their logs."""
