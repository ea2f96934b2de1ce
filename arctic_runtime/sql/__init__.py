"""Parsing and writing of Spark SQL and of Spark's types."""
