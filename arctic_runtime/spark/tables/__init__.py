"""The relations of one table: their rows as DataFrames, their commits, and the steps that change them."""
