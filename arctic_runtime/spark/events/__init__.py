"""Change events: their checks and their order, and the rules that compute a row from all events of its key."""
