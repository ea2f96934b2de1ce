"""The Spark engine: its JVM and JARs, sessions, the background server, SQL statements and settings."""
