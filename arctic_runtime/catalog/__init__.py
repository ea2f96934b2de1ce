"""Reads a catalog and the metadata of its tables by pyiceberg, without Spark."""
