"""Streams the change rows of tables over HTTP in formats that other programs read, such as Arrow and CSV."""
