"""Answers queries by DuckDB, without Spark: only those whose answer is known to equal Spark's."""
