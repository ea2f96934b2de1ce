"""Rules of incremental maintenance: one module per operator in `operators`, and functions that the rules share."""
