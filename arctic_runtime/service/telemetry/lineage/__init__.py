"""Lineage of tables and columns, for tools that collect it across systems."""
