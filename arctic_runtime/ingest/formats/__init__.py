"""The formats of change events, one module each; each is a description by which Spark decodes whole batches."""
