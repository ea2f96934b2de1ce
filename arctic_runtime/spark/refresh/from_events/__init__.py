"""Change rows from change events: folded, and laid over the rows that are there."""
