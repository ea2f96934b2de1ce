"""Commands of `arctic` besides its operations: ingest, run, serve and spark."""
