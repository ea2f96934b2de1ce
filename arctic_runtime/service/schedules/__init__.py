"""Scheduled work: models that dbt runs at set times, and tests of tables after their refreshes."""
