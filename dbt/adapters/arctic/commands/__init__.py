"""Commands of `arctic` beside its operations: ingest, run, serve and spark."""
