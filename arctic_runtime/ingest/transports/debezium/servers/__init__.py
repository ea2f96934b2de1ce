"""Databases that Debezium reads: their rights, settings, catalogs and the order of their logs."""
