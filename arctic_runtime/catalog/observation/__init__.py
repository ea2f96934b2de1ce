"""Observes tables and views without Spark: reads metadata and manifests, hardly any data file."""
