"""Computes change rows from change events: folds the events of each key, and compares the result with stored rows."""
