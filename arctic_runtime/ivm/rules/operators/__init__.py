"""Rules of incremental maintenance, one module per operator."""
