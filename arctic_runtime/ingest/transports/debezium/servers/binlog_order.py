"""The order of events in the binary log of MySQL and MariaDB: by file, position in the file, and row of the event."""

from __future__ import annotations

from collections.abc import Mapping

from arctic_runtime.ingest.transports.debezium.position import Newest, Position, Source

_BEGIN = ("file", "pos", "gtids")
"""Keys of an offset that identify the begin of a transaction; others identify an event inside it."""


class BinlogOrder:
    """Compares positions in the binary log of MySQL and MariaDB.

    Debezium continues exactly only at the begin of a transaction: of the one that is being read, or after the last one.
    """

    def build_position(
        self, partition: Source, offset: Source, last: Mapping[str, Newest], before: Position
    ) -> Position:
        begin = select_transaction_begin(offset)
        newest = max((event.source for event in last.values()), key=read_log_position, default=before.seen)
        is_inside = newest is not None and read_log_position(newest) >= read_log_position(begin)
        seen = {key: newest[key] for key in ("file", "pos", "row")} if newest is not None and is_inside else None
        return Position(partition, begin, seen, [begin["file"], begin["pos"]])

    def is_same(self, source: Source, other: Source) -> bool:
        return read_log_position(source) == read_log_position(other)

    def count_events_at(self, position: Position, table: str, source: Source) -> int:
        return 0

    def is_after(self, source: Source, number: int, table: str, position: Position) -> bool:
        if position.seen is not None:
            return read_log_position(source) > read_log_position(position.seen)
        return read_log_position(source) >= read_log_position(position.offset)

    def is_past(self, position: Position, other: Position) -> bool:
        if other.seen is None:
            return read_log_position(position.offset) >= read_log_position(other.offset)
        return read_log_position(position.offset) > read_log_position(other.seen)

    def has_come_to(self, position: Position, offset: Source) -> bool:
        return read_log_position(position.offset) >= read_log_position(offset)

    def build_snapshot_position(self, begin: Position, first: Source | None) -> Position:
        return Position(begin.partition, begin.offset, reached=[begin.offset["file"], begin.offset["pos"]])

    def get_log_position(self, position: Position) -> tuple[int, int, int]:
        """Returns file number, position and row of the last event that was read.

        If no event was read since the transaction began, the row is -1, which is before the transaction's first row.
        """
        number, offset, _ = read_log_position(position.offset)
        begin = number, offset, -1
        return begin if position.seen is None else max(begin, read_log_position(position.seen))

    def describe_log_position(self, position: Position) -> str:
        file, offset = position.reached or (position.offset["file"], position.offset["pos"])
        return f"{file}:{offset}"


def select_transaction_begin(offset: Source) -> Source:
    """Selects the keys of an offset that identify the begin of its transaction."""
    return {key: offset[key] for key in _BEGIN if key in offset}


def read_log_position(source: Source) -> tuple[int, int, int]:
    """Returns an event's log position: number of the log file, position in the file, and number of the row."""
    return parse_file_number(source["file"]), int(source["pos"]), int(source.get("row") or 0)


def parse_file_number(file: str) -> int:
    """Parses the number at the end of a log file's name, such as 12 for `binlog.000012`.

    Later files have higher numbers.
    """
    return int(file.rpartition(".")[2])
