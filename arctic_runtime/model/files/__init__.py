"""Data files of tables as data: how they lie, what can be done to them, and what expires."""
