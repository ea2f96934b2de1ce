"""Versions of a table, and the windows of versions that a run reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from arctic_runtime.errors import CorruptState


@dataclass(frozen=True)
class Version:
    """One version of a table; versions are ordered by `sequence`, Iceberg's sequence number, and not by commit time.

    `table` is the table's UUID, which distinguishes a table from one that was dropped and created again under the same
    name. `snapshot` is the snapshot's id.
    """

    table: str
    snapshot: int
    sequence: int


@dataclass(frozen=True)
class Window:
    """Versions of an upstream that a run reads: after `start` (None: from the first version) and up to `end`."""

    upstream: str
    start: Version | None
    end: Version

    @property
    def is_empty(self) -> bool:
        return self.start == self.end


def encode_versions(versions: Mapping[str, Version]) -> str:
    """Encodes versions, by upstream name, as one line of JSON, for the summary of a snapshot."""
    return json.dumps({name: asdict(version) for name, version in sorted(versions.items())}, separators=(",", ":"))


def decode_versions(text: str | None) -> dict[str, Version]:
    """Parses JSON of `encode_versions`; empty for None. Raises CorruptState if the text can't be parsed."""
    try:
        return {name: _build_version(**fields) for name, fields in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptState(
            "The offsets in a snapshot summary can't be decoded.",
            actual=repr(text),
            fix="restore the change table's last good snapshot, or run with --full-refresh",
        ) from error


def _build_version(table: object, snapshot: object, sequence: object) -> Version:
    if type(table) is not str or type(snapshot) is not int or type(sequence) is not int:
        raise TypeError("a version is a text and two integers")
    return Version(table, snapshot, sequence)
