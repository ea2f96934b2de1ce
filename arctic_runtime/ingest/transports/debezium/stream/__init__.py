"""An open stream of Debezium: its runs, their batches, heartbeats and receipts."""
