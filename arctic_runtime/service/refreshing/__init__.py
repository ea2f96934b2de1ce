"""Following models: passes over what has something new, and the refresh of each model."""
