"""Configuration of a model: all keys, the functions that read their values, and checks of the whole configuration."""
