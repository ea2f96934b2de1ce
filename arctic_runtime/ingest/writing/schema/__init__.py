"""Schemas of a source's tables: determines them, and changes the columns of the arctic tables accordingly."""
