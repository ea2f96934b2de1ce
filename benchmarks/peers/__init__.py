"""The same work done by us, by Delta Lake and by Apache Paimon, each in a process of its own.

Imports nothing itself: Paimon's process runs where dbt-arctic is not installed.
"""
