"""All modules that use Spark: the engine, tables, refreshes, history, maintenance and forgetting."""
