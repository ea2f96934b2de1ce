"""A project's models as `arctic run` follows them: what dbt knows of them, and what it would do around a refresh."""
