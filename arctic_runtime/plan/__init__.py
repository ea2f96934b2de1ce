"""Pure functions that plan steps from observed states: configuration, refresh, schema, cost, compaction, expiry."""
