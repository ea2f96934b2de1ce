"""Following models: what has something new is refreshed, as long as the process lives."""

__all__ = ["follower", "graph", "readings", "records", "refresh_pass"]
