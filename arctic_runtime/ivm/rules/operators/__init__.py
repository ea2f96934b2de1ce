"""Rules of incremental maintenance, one module per operator or family of operators."""
