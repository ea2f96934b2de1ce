"""Audits incremental models on Spark: reads their queries and tables at pinned snapshots, and compares the rows."""
