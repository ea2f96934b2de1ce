"""The Python library, by which a notebook, a job or a program uses tables of a warehouse or of a dbt project."""
