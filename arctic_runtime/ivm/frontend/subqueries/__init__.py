"""Turns subqueries in expressions into joins."""
