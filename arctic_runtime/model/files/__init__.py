"""Data classes for the files of tables: their layout, compaction and expiry."""
