"""State of a service in the form that HTTP, the page and metrics show."""
