"""Commands of `arctic` besides its operations: audit, ingest, run, serve and spark."""
