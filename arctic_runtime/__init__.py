"""Runtime of dbt-arctic: keyed tables on Apache Iceberg, kept fresh by their changes."""
