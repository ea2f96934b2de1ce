"""Positions of Debezium as text: from where a new engine continues, and which later events were already read."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.sources.positions import ParsedPosition, keep_opaque

Source = Mapping[str, Any]
"""The part of an event or an offset that contains its place in the source."""


@dataclass(frozen=True)
class Newest:
    """The newest event of a table in a batch, and how many of the table's last events have its place in the log."""

    source: Source
    count: int


@dataclass(frozen=True)
class Joining:
    """Tables that are to join a stream at `offset`, the position of their snapshot; `history` are their definitions."""

    tables: tuple[str, ...]
    offset: Source
    history: str


@dataclass(frozen=True)
class Position:
    """A position in the changes of a source.

    `partition` identifies the server. `offset` is where an engine continues: the end of a transaction, since Debezium
    does not continue exactly inside of one. `seen` is the last event that was read after that, None if none was.
    `reached` is how far the source's log was read, in the server's own terms. `history` are the definitions of tables
    over time, if the log itself does not contain them. `joining` are tables that are to join the stream, in the order
    of their positions. These two are only in `progress`, not in `text`.
    """

    partition: Mapping[str, Any]
    offset: Mapping[str, Any]
    seen: Mapping[str, Any] | None = None
    reached: Any = None
    history: str | None = None
    joining: tuple[Joining, ...] = ()

    @property
    def is_snapshot(self) -> bool:
        """Whether a snapshot is not finished at this position."""
        return "snapshot" in self.offset

    @property
    def text(self) -> str:
        parts = {"partition": self.partition, "offset": self.offset, "seen": self.seen, "reached": self.reached}
        return _dump_json({key: value for key, value in parts.items() if value is not None})

    @property
    def progress(self) -> str | None:
        """The text of the position with the history and the joining tables; None if there is no history."""
        if self.history is None:
            return None
        joining = [
            {"tables": entry.tables, "offset": entry.offset, "history": _pack_history(entry.history)}
            for entry in self.joining
        ]
        known = {**json.loads(self.text), "history": _pack_history(self.history)}
        return _dump_json({**known, "joining": joining} if joining else known)

    def to_stored_offset(self, name: str) -> tuple[str, str]:
        """Builds the key and the value by which Kafka Connect stores the offset of the engine `name`."""
        partition = {key: name if key == "server" else value for key, value in self.partition.items()}
        return _dump_json([name, partition]), _dump_json(self.offset)


INITIAL = Position({}, {"snapshot": "start"})
"""The position before all events."""


class LogOrder(Protocol):
    """The order of events in the log of one kind of database, by the `source` of each event.

    Several events may have the same place in the log; they are distinguished by their number among those of their
    table.
    """

    def build_position(
        self, partition: Source, offset: Source, last: Mapping[str, Newest], before: Position
    ) -> Position:
        """Returns the position after records of the stream that come directly after the position `before`.

        `offset` is that of the last record. `last` has the newest event of each table among the records.
        """

    def is_same(self, source: Source, other: Source) -> bool:
        """Whether two events have the same place in the log."""

    def count_events_at(self, position: Position, table: str, source: Source) -> int:
        """Number of a table's events with the place of `source` that are before `position`; 0 for another place."""

    def is_after(self, source: Source, number: int, table: str, position: Position) -> bool:
        """Whether an event of the stream comes after a position; `number` counts the events with its place, from 1."""

    def is_past(self, position: Position, other: Position) -> bool:
        """Whether everything after `position` comes after the last event that `other` has seen."""

    def has_come_to(self, position: Position, offset: Source) -> bool:
        """Whether everything after `position` also comes after `offset`, an offset without a snapshot."""

    def as_of(self, begin: Position, first: Source | None) -> Position:
        """Returns the position of rows that a snapshot loaded at `begin`, at which their stream starts.

        It can be compared with positions of other streams. `first` is the first event after `begin`, of any table of
        the load; None if a transaction without such events was committed first.
        """

    def get_log_place(self, position: Position) -> Any:
        """Returns the place in the log of a position without a snapshot, as a value that can be compared."""

    def describe_place(self, position: Position) -> str:
        """Describes for people the place in the log of a position without a snapshot."""


def parse_position(order: LogOrder, text: str) -> ParsedPosition:
    """Parses a position to a form that can be compared and shown, by `order`; does not unpack definitions of tables.

    Rows of a snapshot come before all events. A text that is no position of this kind of database stays opaque.
    """
    try:
        parts = json.loads(text)
        position = Position(parts["partition"], parts["offset"], parts.get("seen"), parts.get("reached"))
        if position.is_snapshot:
            return ParsedPosition(position.text, "a snapshot", {})
        places = {"log": order.get_log_place(position)}
        return ParsedPosition(position.text, order.describe_place(position), places, position.seen is None)
    except (ValueError, TypeError, KeyError):
        return keep_opaque(text)


def read_position(text: str) -> Position:
    """Parses a text of `Position.text` or `progress`; raises CorruptState for any other text."""
    try:
        parts = json.loads(text)
        partition, offset = parts["partition"], parts["offset"]
        if isinstance(partition, dict) and isinstance(offset, dict):
            history = _unpack_history(parts["history"]) if parts.get("history") else None
            joining = tuple(
                Joining(
                    tuple(joining_parts["tables"]), joining_parts["offset"], _unpack_history(joining_parts["history"])
                )
                for joining_parts in parts.get("joining", ())
            )
            return Position(partition, offset, parts.get("seen"), parts.get("reached"), history, joining)
    except (ValueError, TypeError, KeyError, zlib.error):
        pass
    raise CorruptState(
        f"{text[:200]!r} is no position of a Debezium source; expected JSON with a partition and an offset.",
        fix="see whether another program wrote properties of the table; `arctic ingest --resync` starts again",
    )


def _pack_history(history: str) -> str:
    return base64.b85encode(zlib.compress(history.encode(), 9)).decode()


def _unpack_history(text: str) -> str:
    return zlib.decompress(base64.b85decode(text)).decode()


def _dump_json(value: Any) -> str:
    """Formats a value as JSON exactly as Kafka Connect does, byte by byte."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
