"""Savepoints: versions of a table that a user has named, and that expiry does not delete."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit


@dataclass(frozen=True)
class Savepoint:
    """A named version of a table: the name, and the commit of the change table that the Iceberg tag `name` marks."""

    name: str
    commit: Commit


@dataclass(frozen=True)
class SetTag:
    """Step: create the tag `name` at a snapshot of a table, or drop it if `snapshot` is None."""

    table: TableName
    name: str
    snapshot: int | None
