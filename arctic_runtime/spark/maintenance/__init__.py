"""Maintenance of one table by Spark: compaction, expiry, savepoints, reset, and reads of its change rows."""
