"""Change rows: the exact difference between images of a table's rows."""
