"""A dbt project as commands need it: its models, sources and files, and what dbt does around a refresh."""
