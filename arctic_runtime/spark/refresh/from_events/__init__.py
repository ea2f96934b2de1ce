"""Computes change rows from change events: events are folded by key and compared with the stored rows."""
