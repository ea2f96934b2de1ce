"""Decisions about files and versions of tables: compaction, splits, expiry and their order."""
