"""Writes events to one table: deduplicates, decodes and counts them, follows the schema, folds and publishes."""
