"""Relations in dbt, with their columns, constraints and documentation."""
