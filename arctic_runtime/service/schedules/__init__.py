"""Work at set times: models that dbt runs, and tests of tables after their refreshes."""
