"""Computes change rows from a query: compared with the table in full, or derived from the changes of its sources."""
