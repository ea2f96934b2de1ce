"""Connections of dbt: Spark sessions and their statements."""
