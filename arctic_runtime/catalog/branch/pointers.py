"""Data classes for the pointers of a catalog, which say what metadata file of a table or view is current."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class Pointer:
    """The current metadata file of a table or view; `kind` is `TABLE` or `VIEW`, as in an Iceberg JDBC catalog."""

    table: TableName
    kind: str
    file: str


@dataclass(frozen=True)
class PointerChange:
    """A table or view whose pointer differs between a branch and the catalog from which the branch was made.

    `before` is its pointer when the branch was made, or None if it did not exist; `after` is its pointer on the branch,
    or None if it was dropped there.
    """

    table: TableName
    before: Pointer | None
    after: Pointer | None
