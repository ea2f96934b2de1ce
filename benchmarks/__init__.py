"""Benchmarks: ratios measured side by side in one run, printed as a table and written as JSON."""
