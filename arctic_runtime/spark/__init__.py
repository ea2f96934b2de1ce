"""The only package that imports pyspark: observing tables, executing steps, and committing."""
