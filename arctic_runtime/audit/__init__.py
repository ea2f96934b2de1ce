"""Audits incremental models: compares a table with its query, and names the likely cause of each difference."""
