"""Change data from databases, Kafka and files into keyed tables.

`formats` describe the change events of each format, `transports` fetch them, and `writing` publishes them.
"""
