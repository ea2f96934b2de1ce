"""The relations of one table: their rows as DataFrames, commits, and the evaluator of steps."""
