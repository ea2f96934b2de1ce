"""Schemas of a source's tables: finds them, and changes the columns of the arctic tables accordingly."""
