"""Change events from topics of Kafka."""
