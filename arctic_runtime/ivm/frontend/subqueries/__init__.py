"""Queries inside expressions, as joins."""
