"""The transport that reads change events from topics of Kafka."""
