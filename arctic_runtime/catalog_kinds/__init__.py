"""Kinds of catalogs: one entry for each value that `type` may have in a profile's `catalog_config`.

The module of the profile imports this package, and the package `catalog` imports the profile; so this package is not a
part of `catalog`.
"""

__all__ = [
    "capabilities",
    "catalog_kind",
    "jdbc",
    "missing_rights",
    "object_stores",
    "plain_kinds",
    "registry",
    "store_warehouse",
]
