"""Reads a model's relations as DataFrames, and builds conditions by which Spark skips files."""
