"""Pure decisions, from observed states to steps: configuration, refresh, schema, cost, compaction, expiry."""
