"""The operators of a query, the expressions over their columns, and what is proven of both."""
