"""One module for each format of change events. They are data: Spark decodes whole batches by what they say."""
