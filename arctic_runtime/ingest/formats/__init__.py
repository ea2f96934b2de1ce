"""The formats of change events, one module each; a format is data by which Spark decodes whole batches."""
