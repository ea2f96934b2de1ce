"""The job that ingests one source: it publishes batches to the source's tables until none is left or it is stopped.

`ingestion` runs the job. `states` defines how a batch is written, and `source_tables` lists the tables of the source.
`background_load` loads tables alongside the stream of the others, and `merging` merges unmerged changes into the bases
of tables at the same time.
"""
