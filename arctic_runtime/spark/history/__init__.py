"""Tables with history, which keep every version of a row."""
