"""Connections of dbt: a Spark session and its statements."""
