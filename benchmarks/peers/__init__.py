"""The same work done by us and by other engines, each in a process of its own.

Imports nothing itself: processes with an older Spark run where dbt-arctic is not installed.
"""
