"""State of a service as HTTP, the page and metrics show it."""
