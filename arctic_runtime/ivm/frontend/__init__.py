"""Turns SQL text into a tree of operators; raises NotMaintained for queries that no rule of maintenance covers."""
