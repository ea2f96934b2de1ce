"""Following models: what has something new is refreshed, as long as the process lives."""
