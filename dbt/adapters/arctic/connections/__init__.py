"""What dbt calls a connection: a Spark session and its statements."""
