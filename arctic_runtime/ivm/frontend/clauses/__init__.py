"""Analysis of the clauses of a select: FROM, GROUP BY, HAVING, window functions, ORDER BY, LIMIT and OFFSET."""
