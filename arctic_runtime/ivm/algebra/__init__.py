"""Operators of a query's tree, expressions over their columns, and functions that prove properties of both."""
