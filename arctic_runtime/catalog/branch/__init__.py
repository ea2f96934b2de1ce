"""Branches of a catalog: a build writes to one, and all that it wrote becomes visible by one commit."""
