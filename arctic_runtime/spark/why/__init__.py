"""Follows changes of a row through runs and upstreams, back to the source."""
