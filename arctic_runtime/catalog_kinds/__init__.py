"""Kinds of catalogs: one entry for each value that `type` may have in a profile's `catalog_config`.

The profile stands on them, and reading a catalog stands on the profile: so they are no part of `catalog`.
"""

__all__ = ["catalog_kind", "jdbc", "plain_kinds", "registry"]
