"""Writes events to one table: deduplicates, decodes and counts them, changes columns, folds and publishes."""
