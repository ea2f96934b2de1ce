"""Savepoints: versions of a table with a name, which expiry does not delete.

A user names them, or a build that is published as a whole, whose cuts expiry drops when they are old.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit

_CUT = re.compile(r"build_\d{8}T\d{6}Z_[0-9a-f]{4}")


def format_cut(at_ms: int, suffix: str) -> str:
    """Returns the name of the cut of a build: the tag that all tables of the build get when it is published.

    `at_ms` is the time in milliseconds since 1970, and `suffix` four hexadecimal digits that tell two builds of one
    second apart.
    """
    return f"build_{datetime.fromtimestamp(at_ms / 1000, timezone.utc):%Y%m%dT%H%M%SZ}_{suffix}"


def parse_cut(name: str) -> int | None:
    """Returns the time of a cut in milliseconds since 1970; None if `name` is not the name of a cut."""
    if not _CUT.fullmatch(name):
        return None
    try:
        at = datetime.strptime(name[6:22], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return round(at.timestamp() * 1000)


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
