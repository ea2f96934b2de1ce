"""Incremental maintenance of plain queries: analysis to a tree of operators, and the rules that maintain each.

Pure: trees in, trees out. Rules follow the algebra of signed bags of Gupta and Mumick (Maintenance of Materialized
Views, 1995) with the affected units of generalized recomputation (Salem et al. and later systems) where an operator
is not linear.
"""
