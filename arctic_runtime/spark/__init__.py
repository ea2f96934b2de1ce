"""Work that Spark does, apart from ingestion: the engine, tables, refreshes, history, maintenance and forgetting."""
