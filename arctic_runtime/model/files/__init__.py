"""Data classes and functions for the files of tables: layout, compaction and expiry."""
