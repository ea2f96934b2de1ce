"""Writes events to one table: deduplicates, decodes and counts events, changes columns, folds and publishes."""
