"""Ways to maintain a whole query: deltas, affected keys, row pairs, aggregate state."""
