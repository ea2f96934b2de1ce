"""Configuration of a model: every key, its reader and its check."""
