"""Clauses of a select: FROM, GROUP BY, HAVING, windows, order and limits."""
