"""Data classes for models, their tables and sources, and for plans; and the names that are stored in tables."""
