"""Refreshes a model: computes its change rows and publishes them."""
