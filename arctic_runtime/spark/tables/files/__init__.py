"""Rewrites data files of a model's tables without a change of the rows that readers see."""
