"""Forgets rows: deletes them from a table and all tables computed from it, and from every file of these tables."""
