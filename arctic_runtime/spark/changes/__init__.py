"""Change rows: computed by an exact comparison of a table's new and old rows."""
