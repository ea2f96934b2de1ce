"""The relations of one model: their rows as DataFrames, commits to them, and the steps that change them."""
