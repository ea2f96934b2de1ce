"""JSON schemas by which editors complete and check what users write in YAML; loads nothing of dbt or Spark."""
