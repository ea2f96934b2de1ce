"""Incremental view maintenance: turns the operator tree of a query into plans that read only the changed rows.

The code is pure: it turns trees into trees. Each operator has a rule. The rules of linear operators compute added and
removed rows with their multiplicities, by the algebra of Gupta and Mumick (Maintenance of Materialized Views, 1995).
The rules of other operators compute the keys of the affected result rows, and the result again for these keys only
(generalized recomputation, Salem et al. and later systems).
"""
