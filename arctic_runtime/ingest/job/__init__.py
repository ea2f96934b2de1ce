"""The job that ingests one source: batches of its transport are published to its tables until it is drained or stopped.

`ingestion` runs the job, `states` say how a batch is written, `source_tables` which tables the source has,
`background_load` loads some alongside the stream of the others, and `merging` merges their bases meanwhile.
"""
