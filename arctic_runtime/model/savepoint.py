"""Savepoints: versions of a table that a user has named, and that expiry keeps."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit


@dataclass(frozen=True)
class Savepoint:
    """A savepoint: its name, and the commit of the change table to which the tag of this name points."""

    name: str
    commit: Commit


@dataclass(frozen=True)
class SetTag:
    """Create the tag `name` at a snapshot of a table, or drop it if `snapshot` is None."""

    table: TableName
    name: str
    snapshot: int | None
