"""Observes tables and views through pyiceberg, without Spark: reads metadata and manifests, hardly any data file."""
