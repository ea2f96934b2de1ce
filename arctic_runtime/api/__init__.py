"""The library: tables of a warehouse or of a dbt project, from a notebook, a job or a program."""
