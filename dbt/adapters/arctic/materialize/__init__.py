"""Converts nodes of dbt to refreshes: configuration, model, materialization."""
