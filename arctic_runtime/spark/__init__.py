"""All that Spark does to tables: sessions, steps and commits, refreshes, maintenance."""
