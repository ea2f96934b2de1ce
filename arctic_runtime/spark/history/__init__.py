"""Tables that keep every version of a row."""
