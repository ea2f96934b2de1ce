"""Converts dbt nodes to refreshes of the runtime: their configuration, model and materialization."""
