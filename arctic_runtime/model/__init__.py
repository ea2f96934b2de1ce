"""Data classes for tables, versions, windows, states, steps and change sets, and the names stored in tables."""
