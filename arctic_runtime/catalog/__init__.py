"""Reads a catalog and the metadata of its tables without Spark, by pyiceberg or by SQLite and JSON."""
