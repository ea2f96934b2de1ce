"""Forgets rows: deletes them from a table, from all tables derived from it, and from every file of these tables."""
