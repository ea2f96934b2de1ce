"""The rule of each operator, one module each."""
