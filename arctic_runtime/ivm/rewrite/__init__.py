"""Trees to equivalent trees that read fewer rows or columns, and the statistics for that."""
