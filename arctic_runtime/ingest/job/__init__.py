"""The job that ingests one source: it publishes batches to the source's tables until none is left or it is stopped.

`ingestion` runs the job. `states` say how a batch is written, and `source_tables` says which tables the source has.
`background_load` loads tables alongside the stream of the others, and `merging` merges unmerged changes meanwhile.
"""
