"""Decoding of change events: from JSON texts to typed rows, by Spark."""
