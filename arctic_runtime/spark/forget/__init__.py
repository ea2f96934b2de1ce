"""Rows are forgotten: in a table, in all that is made of it, and in every file of these tables."""
