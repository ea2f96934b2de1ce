"""Connections of dbt: Spark sessions and the statements that run in them."""
