"""Turns SQL text into a tree of operators; raises NotMaintained for what is not understood or not proven."""
