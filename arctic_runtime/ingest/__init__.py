"""Ingests change data from databases, Kafka and files into arctic tables.

`formats` describe the change events of each format, and `transports` fetch them. `writing` is the pipeline that
publishes events to a table, and `dead_letters` keeps those that can't be applied. `job` runs all of that for one
source.
"""
