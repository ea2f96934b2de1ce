"""The sample project live: a database changes, its changes are ingested, and the models follow them."""
