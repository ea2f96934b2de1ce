"""Rewrites trees to equivalent trees that read fewer rows or columns, with the statistics for these rewrites."""
