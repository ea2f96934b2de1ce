"""DataFrames over a table's relations, and conditions that prune their files."""
