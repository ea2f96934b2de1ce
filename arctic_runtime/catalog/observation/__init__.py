"""Observing tables and views through pyiceberg: metadata and manifests, no data file, no Spark."""
