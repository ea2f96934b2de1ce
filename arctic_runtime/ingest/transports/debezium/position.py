"""Positions of Debezium as text: where a new engine continues, and which events after that were read already."""

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
"""The part of an event or an offset that tells its place in the source."""


@dataclass(frozen=True)
class Newest:
    """The newest event of a table in a batch, and how many of the table's last events there stand at its place."""

    source: Source
    count: int


@dataclass(frozen=True)
class Joining:
    """Tables that a stream adds when it reaches the position of their snapshot: their definitions as of then.

    `offset` is that place.
    """

    tables: tuple[str, ...]
    offset: Source
    history: str


@dataclass(frozen=True)
class Position:
    """A place in the changes of a source.

    `partition` tells of which server. `offset` is where an engine continues: the end of a transaction, since Debezium
    does not go on exactly inside of one. `seen` is the last event that was read after that, None if none was.
    `reached` is how far the source's log was read, in the server's own terms. `history` are the definitions of tables
    over time, if the log itself does not tell them; it is in no text but `progress`, as are the tables that are
    `joining`, by the order of their places.
    """

    partition: Mapping[str, Any]
    offset: Mapping[str, Any]
    seen: Mapping[str, Any] | None = None
    reached: Any = None
    history: str | None = None
    joining: tuple[Joining, ...] = ()

    @property
    def is_snapshot(self) -> bool:
        """Whether a snapshot is still under way there."""
        return "snapshot" in self.offset

    @property
    def text(self) -> str:
        parts = {"partition": self.partition, "offset": self.offset, "seen": self.seen, "reached": self.reached}
        return _dump_json({key: value for key, value in parts.items() if value is not None})

    @property
    def progress(self) -> str | None:
        """The text with the history; None if there is none."""
        if self.history is None:
            return None
        joining = [
            {"tables": entry.tables, "offset": entry.offset, "history": _pack_history(entry.history)}
            for entry in self.joining
        ]
        known = {**json.loads(self.text), "history": _pack_history(self.history)}
        return _dump_json({**known, "joining": joining} if joining else known)

    def to_stored_offset(self, name: str) -> tuple[str, str]:
        """The key and the value by which Kafka Connect stores the offset of the engine with a name."""
        partition = {key: name if key == "server" else value for key, value in self.partition.items()}
        return _dump_json([name, partition]), _dump_json(self.offset)


INITIAL = Position({}, {"snapshot": "start"})
"""Before all events."""


class LogOrder(Protocol):
    """The order of events in the log of one kind of database, by the `source` of each event.

    Several events may stand at one place of the log; their number among those of their table tells them apart.
    """

    def build_position(
        self, partition: Source, offset: Source, last: Mapping[str, Newest], before: Position
    ) -> Position:
        """The position after records of the stream that follow on the position `before`.

        `offset` is the last record's. `last` has the newest event of each table among them.
        """

    def is_same(self, source: Source, other: Source) -> bool:
        """Whether two events stand at one place of the log."""

    def count_events_at(self, position: Position, table: str, source: Source) -> int:
        """Number of a table's events at the position of an event that a position is past, 0 if it is elsewhere."""

    def is_after(self, source: Source, number: int, table: str, position: Position) -> bool:
        """Whether an event of the stream comes after a position; `number` counts the events at its place, from 1."""

    def is_past(self, position: Position, other: Position) -> bool:
        """Whether all that comes after a position comes after the last event that another has seen."""

    def has_come_to(self, position: Position, offset: Source) -> bool:
        """Whether all that comes after a position comes after a place of the log too, an offset without a snapshot."""

    def as_of(self, begin: Position, first: Source | None) -> Position:
        """The position of a table whose rows are those of the place where a stream begins, among all streams.

        `first` is the first event of the table after that place, or of others; None if a transaction was committed
        after it and before any such event.
        """

    def get_log_place(self, position: Position) -> Any:
        """The place of a position without a snapshot, in a value that can be compared."""

    def describe_place(self, position: Position) -> str:
        """The place of a position without a snapshot, for people."""


def parse_position(order: LogOrder, text: str) -> ParsedPosition:
    """A position as `order` compares and describes it; definitions of tables are not unpacked.

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
    """The position of a text that `Position.text` or `progress` wrote; raises CorruptState for another."""
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
    """JSON as Kafka Connect writes it, byte by byte."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
