"""Change events from files of a folder or bucket."""
