"""Lineage of tables and columns, for tools that collect it from many systems."""
