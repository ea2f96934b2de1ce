"""Reads a manifest that dbt has written with whatever adapter, and refreshes its models without dbt."""
