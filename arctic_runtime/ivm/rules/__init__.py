"""Rules of incremental maintenance: a module for each operator in `operators`, and the functions that they share."""
