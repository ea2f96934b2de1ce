"""Positions of Debezium as text: the offset from which a new engine continues, and the newest event read after it."""

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
"""The part of an event or an offset that contains its position in the source's log."""


@dataclass(frozen=True)
class Newest:
    """The last event of a table in a batch, by its part `source`, which contains its log position.

    `count` is the number of the table's last events with this same log position.
    """

    source: Source
    count: int


@dataclass(frozen=True)
class Joining:
    """Loaded tables that the stream will read from `offset` on, the position of their snapshot.

    `history` are the definitions of these tables up to that position, one JSON object per line.
    """

    tables: tuple[str, ...]
    offset: Source
    history: str


@dataclass(frozen=True)
class Position:
    """A position in the changes of a source.

    `history` and `joining` are only in `progress`, not in `text`.
    """

    partition: Mapping[str, Any]
    """Identifies the server."""

    offset: Mapping[str, Any]
    """Offset from which an engine continues: the end of a transaction.

    Debezium does not continue exactly inside of one.
    """

    seen: Mapping[str, Any] | None = None
    """The last event that was read after `offset`; None if there is none."""

    reached: Any = None
    """Log position up to which the log was read, in a form of the database's kind."""

    history: str | None = None
    """Definitions of tables over time, if the log itself does not contain them."""

    log: Mapping[str, str] | None = None
    """Identity of the log, in a form of the database's kind; None if it is not known.

    Positions can be compared only within one log: a server that takes the place of another may have one of its own.
    """

    joining: tuple[Joining, ...] = ()
    """Loaded tables that the stream does not read yet, ordered by the positions from which it will."""

    @property
    def is_snapshot(self) -> bool:
        """Whether the position is inside a snapshot, which is not finished yet."""
        return "snapshot" in self.offset

    @property
    def text(self) -> str:
        parts = {
            "partition": self.partition,
            "offset": self.offset,
            "seen": self.seen,
            "reached": self.reached,
            "log": self.log,
        }
        return _dump_json({key: value for key, value in parts.items() if value is not None})

    @property
    def progress(self) -> str | None:
        """JSON of the position with its history and joining tables; None if the position has no history."""
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
"""The position before all events, at which a snapshot begins."""


class LogOrder(Protocol):
    """The order of events in the log of one kind of database, by the `source` part of each event.

    Several events may have the same log position; they are distinguished by their number among the events of their
    table with that position.
    """

    def build_position(
        self, partition: Source, offset: Source, last: Mapping[str, Newest], before: Position
    ) -> Position:
        """Returns the position after a batch of stream records that directly follows the position `before`.

        `partition` and `offset` are those of the last record. `last` has the newest event of each table among the
        records.
        """

    def is_same(self, source: Source, other: Source) -> bool:
        """Whether two events have the same log position, given the `source` part of each."""

    def count_events_at(self, position: Position, table: str, source: Source) -> int:
        """Number of a table's events up to `position` that have the same log position as `source`."""

    def is_after(self, source: Source, number: int, table: str, position: Position) -> bool:
        """Whether an event of the stream comes after a position.

        `source` has the event's log position; `number`, from 1, counts the events of its table with that log position.
        """

    def is_past(self, position: Position, other: Position) -> bool:
        """Whether all events after `position` come after the last event that was read at `other`."""

    def has_come_to(self, position: Position, offset: Source) -> bool:
        """Whether all events after `position` also come after the offset `offset`, which is not inside a snapshot."""

    def build_snapshot_position(self, begin: Position, first: Source | None) -> Position:
        """Returns the position that stands for the rows of a snapshot which ended at `begin`, before all later changes.

        The returned position can be compared with positions of other streams. `first` is the first event after `begin`,
        of any table of the load; None if a transaction without such events was committed first.
        """

    def get_log_position(self, position: Position) -> Any:
        """Returns the log position of `position` as a comparable value; `position` is not inside a snapshot."""

    def describe_log_position(self, position: Position) -> str:
        """Describes for people the log position of `position`, which is not inside a snapshot."""


def parse_position(order: LogOrder, text: str) -> ParsedPosition:
    """Parses the text of a position to a form that can be compared by `order` and shown to people.

    Positions inside a snapshot have no log position, so they come before all events. A text that is not a position of
    this kind of database is kept unparsed. The history and the joining tables in the text are not read.
    """
    try:
        parts = json.loads(text)
        position = Position(parts["partition"], parts["offset"], parts.get("seen"), parts.get("reached"))
        if position.is_snapshot:
            return ParsedPosition(position.text, "a snapshot", {})
        log_positions = {"log": order.get_log_position(position)}
        return ParsedPosition(
            position.text, order.describe_log_position(position), log_positions, position.seen is None
        )
    except (ValueError, TypeError, KeyError):
        return keep_opaque(text)


def read_position(text: str) -> Position:
    """Parses JSON of `Position.text` or `Position.progress`; raises CorruptState for any other text."""
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
            seen, reached, log = parts.get("seen"), parts.get("reached"), parts.get("log")
            return Position(partition, offset, seen, reached, history, log, joining)
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
