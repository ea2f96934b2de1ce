"""Savepoints: versions of a table that somebody gave a name to, which expiry keeps."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit


@dataclass(frozen=True)
class Savepoint:
    """A name, and the commit of the change table that its tag there stands at."""

    name: str
    commit: Commit


@dataclass(frozen=True)
class SetTag:
    """A tag of this name, to be made at a snapshot of a table; None: to be dropped."""

    table: TableName
    name: str
    snapshot: int | None
