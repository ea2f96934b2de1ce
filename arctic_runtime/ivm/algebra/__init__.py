"""The operators of a query, the expressions over their columns, and proven properties of both."""
