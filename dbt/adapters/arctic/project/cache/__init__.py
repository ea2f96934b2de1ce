"""Keeps the tables of a compiled project beside dbt's manifest, so that commands which only look need no dbt."""
