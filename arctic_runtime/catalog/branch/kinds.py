"""Chooses how the pointers of a catalog are read and published, from its kind, and refuses kinds that can't be."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from arctic_runtime.catalog.branch.catalog_pointers import CatalogPointers
from arctic_runtime.catalog.branch.database_pointers import DatabasePointers
from arctic_runtime.catalog.branch.rest_pointers import RestPointers
from arctic_runtime.catalog.branch.table_swaps import GluePointers, HivePointers
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile

_POINTERS: Mapping[str, Callable[[CatalogReader], CatalogPointers]] = {
    "glue": GluePointers,
    "hive": HivePointers,
    "rest": RestPointers,
}
"""The class for each kind of catalog that is not in a database."""


def open_pointers(reader: CatalogReader) -> CatalogPointers:
    """Returns the pointers of a catalog, of which `check_branches` says that they can be had."""
    return DatabasePointers(reader) if reader.is_database else _POINTERS[reader.profile.catalog_kind.name](reader)


def check_branches(profile: Profile) -> None:
    """Raises ConfigError if the catalog of a profile can't have a branch on this machine."""
    kind = profile.catalog_kind
    if not kind.is_database and kind.name not in _POINTERS:
        raise ConfigError(
            "`publish: build` can't be used with this catalog.",
            where="publish",
            expected="`warehouse: …`, or a catalog of type jdbc, rest, glue or hive",
            actual=f"a catalog of type {kind.name or 'unknown'}",
            fix="remove `publish`, so that each model is published by its own run",
        )
    if profile.method == "connect" and not profile.is_kept:
        raise ConfigError(
            "`publish: build` can't be used with a Spark server that may be on another machine.",
            where="publish",
            expected="Spark on this machine, which reads the branch of the catalog from a local file",
            actual="method: connect",
            fix="remove `publish`, or use `method: session`",
        )
