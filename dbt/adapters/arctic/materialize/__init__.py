"""From a node of dbt to a refresh: its configuration, its model, its materialization."""
