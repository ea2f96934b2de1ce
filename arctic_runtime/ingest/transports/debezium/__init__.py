"""Change events of databases, by Debezium's engine in this process."""
