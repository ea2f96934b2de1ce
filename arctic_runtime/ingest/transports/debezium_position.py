"""Positions of Debezium as text: the partition and the offset of a record, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arctic_runtime.errors import CorruptState


@dataclass(frozen=True)
class Position:
    """The place of the last record of a batch. `partition` says of which server it is, `offset` where it stands."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any]

    @property
    def is_snapshot(self) -> bool:
        """Whether a snapshot is still under way there."""
        return "snapshot" in self.offset

    @property
    def text(self) -> str:
        return _compact({"partition": self.partition, "offset": self.offset})

    def stored(self, name: str) -> tuple[str, str]:
        """The key and the value by which Kafka Connect stores the offset of the engine with a name."""
        partition = {key: name if key == "server" else value for key, value in self.partition.items()}
        return _compact([name, partition]), _compact(self.offset)


def read_position(text: str) -> Position:
    """The position of a text that `Position.text` wrote; raises CorruptState for another."""
    try:
        parts = json.loads(text)
        partition, offset = parts["partition"], parts["offset"]
        if isinstance(partition, dict) and isinstance(offset, dict):
            return Position(partition, offset)
    except (ValueError, TypeError, KeyError):
        pass
    raise CorruptState(
        f"{text[:200]!r} is no position of a Debezium source; expected JSON with a partition and an offset.\n"
        "  what to do: see whether another program wrote properties of the table; `arctic ingest --resync` starts anew"
    )


def is_after(source: Mapping[str, Any], offset: Mapping[str, Any]) -> bool:
    """Whether an event, by its `source`, comes after an offset of the stream.

    PostgreSQL: events come in the order of their transactions' commits, and within one in the order of the log.
    Debezium tells for each the commit before its transaction, and its own place.
    """
    commit, lsn = json.loads(source["sequence"])
    return (int(commit or 0), int(lsn)) > (int(offset.get("lsn_commit") or 0), int(offset["lsn"]))


def _compact(of: Any) -> str:
    """JSON as Kafka Connect writes it, byte by byte."""
    return json.dumps(of, separators=(",", ":"), ensure_ascii=False)
