"""The transport that reads change events of databases, by Debezium's engine inside this process."""
