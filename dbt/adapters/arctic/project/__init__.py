"""A dbt project as the commands use it: models, sources and files, and dbt's own work before and after a refresh."""
