"""Incremental maintenance of plain queries: a query is analysed into a tree of operators, each maintained by rules.

The code is pure: it turns trees into trees. The rules follow the algebra of signed bags of Gupta and Mumick
(Maintenance of Materialized Views, 1995). For operators that are not linear they use the affected units of generalized
recomputation (Salem et al. and later systems).
"""
