"""The rules of incremental maintenance: one module for each operator or family, and what they are built of."""
