"""The same work done by us and by other engines, each in a process of its own.

Imports nothing itself: the process of Hudi runs where dbt-arctic is not installed.
"""
