"""Rules for each operator, in one module each."""
