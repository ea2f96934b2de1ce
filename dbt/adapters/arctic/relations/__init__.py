"""Relations of dbt, with their columns, constraints and documentation."""
