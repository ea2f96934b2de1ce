"""The pipeline of events to one table: deduplicate, decode, count, follow the schema, fold and publish."""
