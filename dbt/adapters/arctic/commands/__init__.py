"""The commands of `arctic` that are not operations on tables: audit, ingest, run, schema, serve and spark."""
