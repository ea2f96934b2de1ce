"""Change rows from a query: compared with the table in full, or followed from the changes of its sources."""
