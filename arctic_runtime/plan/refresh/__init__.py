"""Decisions about a run: what is computed, how, and the steps after its commit."""
