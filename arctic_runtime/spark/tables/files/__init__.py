"""Rewrites of a table's data files that leave its rows unchanged."""
