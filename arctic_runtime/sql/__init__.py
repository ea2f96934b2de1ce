"""Spark's SQL as text and expressions: its dialect and its types."""
