"""Streams rows over HTTP in formats that other programs read."""
