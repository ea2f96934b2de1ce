"""What dbt calls a relation, with its columns, constraints and catalog entries."""
