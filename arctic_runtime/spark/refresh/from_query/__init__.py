"""Computes change rows from a query: by comparison of all its rows with the table, or from changes of its sources."""
