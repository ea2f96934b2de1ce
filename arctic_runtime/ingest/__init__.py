"""Change data from databases, Kafka and files into arctic tables.

`formats` describe the change events of each format, `transports` fetch them, `writing` is the pipeline that publishes
them to a table, `dead_letters` keeps those that can't be applied, and `job` runs all of that for one source.
"""
