"""Rewrites of a table's data files, which change no row."""
