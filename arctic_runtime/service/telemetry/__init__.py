"""Logs, metrics, traces and lineage of a service, for the systems that collect them."""
