"""Prices of the next runs of edited models and of all models below them, before anything is run."""
