"""An open stream of Debezium: the runs of its engine, their batches, heartbeats and receipts."""
