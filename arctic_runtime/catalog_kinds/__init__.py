"""Kinds of catalogs: one entry for each value that `type` may have in a profile's `catalog_config`.

The profile imports them, and `catalog` imports the profile; so they are not part of `catalog`.
"""

__all__ = ["capabilities", "catalog_kind", "jdbc", "object_stores", "plain_kinds", "registry", "store_warehouse"]
