"""Schemas of a source's tables, and how a table follows them."""
