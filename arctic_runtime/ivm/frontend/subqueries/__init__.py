"""Turns subqueries in expressions, such as IN, EXISTS and scalar subqueries, into joins."""
