"""Starts Spark and provides sessions: the JVM and its JARs, the background server, SQL statements and settings."""
