"""Upkeep of one table: compaction, expiry, restore, savepoints, verification."""
