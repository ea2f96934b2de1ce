"""An open stream of Debezium: the runs of its engine, with their batches, heartbeats and receipts."""
