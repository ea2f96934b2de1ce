"""State of a service in the form in which HTTP, the page and the metrics show it."""
