"""Strategies that maintain the result of a whole query: deltas, affected keys, pairs and aggregate state."""
