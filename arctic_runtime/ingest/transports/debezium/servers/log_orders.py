"""The orders of events in the binary log of MySQL and MariaDB, and in the write-ahead log of PostgreSQL.

In the binary log: by file, position in the file, and row of the event.

PostgreSQL sends transactions whole, in the order of their commits, and the events of a transaction in the order of
their LSNs. All rows that one COPY puts on one page have the same LSN; so have all tables that one TRUNCATE names. An
event contains its transaction, its LSN, and (in `sequence`) the LSN of the last commit before its transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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
        return Position(partition, begin, seen, [begin["file"], begin["pos"]], log=before.log)

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
        reached = [begin.offset["file"], begin.offset["pos"]]
        return Position(begin.partition, begin.offset, reached=reached, log=begin.log)

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


class WalOrder:
    """Compares positions in PostgreSQL's write-ahead log.

    Debezium continues only after a commit: the server then sends the next transaction from its begin, in the same order
    as before.
    """

    def build_position(
        self, partition: Source, offset: Source, last: Mapping[str, Newest], before: Position
    ) -> Position:
        commit = offset.get("lsn_commit")
        begin = before.offset if commit is None else {"lsn": commit, "lsn_commit": commit}
        seen = _find_newest_seen(last, before, int(commit or 0))
        return Position(partition, begin, seen, int(offset["lsn"]), log=before.log)

    def is_same(self, source: Source, other: Source) -> bool:
        return (source["txId"], source["lsn"]) == (other["txId"], other["lsn"])

    def count_events_at(self, position: Position, table: str, source: Source) -> int:
        seen = position.seen
        if seen is None or (seen["tx"], seen["lsn"]) != (source["txId"], source["lsn"]):
            return 0
        return int(seen["count"].get(table, 0))

    def is_after(self, source: Source, number: int, table: str, position: Position) -> bool:
        seen = position.seen
        if seen is not None and source["txId"] == seen["tx"]:
            lsn = int(source["lsn"])
            return bool(lsn > seen["lsn"] or (lsn == seen["lsn"] and number > seen["count"].get(table, 0)))
        return _commit_before(source) >= _get_commit(position)

    def is_past(self, position: Position, other: Position) -> bool:
        return _get_commit(position) > _get_commit(other)

    def has_come_to(self, position: Position, offset: Source) -> bool:
        return _get_commit(position) >= int(offset["lsn"])

    def build_snapshot_position(self, begin: Position, first: Source | None) -> Position:
        """Returns the position of a snapshot's rows; `begin` is the end of the snapshot, `first` the next event.

        An event contains the LSN of the commit before its transaction, not of its own commit. So if the former is
        before `begin`, the event is after `begin` only if it belongs to the first transaction of the stream.
        """
        lsn = int(begin.offset["lsn"])
        seen = None if first is None else {"commit": lsn, "tx": first["txId"], "lsn": 0, "count": {}}
        return Position(begin.partition, {"lsn": lsn, "lsn_commit": lsn}, seen, lsn, log=begin.log)

    def get_log_position(self, position: Position) -> tuple[int, int]:
        seen = position.seen or {}
        return int(position.offset.get("lsn_commit") or position.offset["lsn"]), int(seen.get("lsn") or 0)

    def describe_log_position(self, position: Position) -> str:
        lsn = int(position.offset["lsn"] if position.reached is None else position.reached)
        return f"LSN {format_lsn(lsn)}"


def format_lsn(lsn: int) -> str:
    """Formats an LSN as PostgreSQL shows it, such as `0/16B3748`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _get_commit(position: Position) -> int:
    return int(position.offset.get("lsn_commit") or 0)


def _commit_before(source: Source) -> int:
    """Returns the LSN of the last commit before an event's transaction; 0 if there was none since the snapshot."""
    commit, _ = json.loads(source["sequence"])
    return int(commit or 0)


def _read_log_position(source: Source) -> tuple[int, int]:
    return _commit_before(source), int(source["lsn"])


def _find_newest_seen(last: Mapping[str, Newest], before: Position, commit: int) -> Mapping[str, Any] | None:
    """Returns the newest event that was read after the commit with the LSN `commit`, in the form of `Position.seen`.

    `last` has the newest event of each table in a batch. If the batch has no events, the result is the event `seen` of
    `before`, the position before the batch. None if the newest event is not after this commit.
    """
    old = before.seen if before.seen is not None and before.seen["commit"] == commit else None
    newest = max((event.source for event in last.values()), key=_read_log_position, default=None)
    if newest is None:
        return old
    if _commit_before(newest) != commit:
        return None
    counts = {
        table: event.count
        for table, event in last.items()
        if _read_log_position(event.source) == _read_log_position(newest)
    }
    tx, lsn = newest["txId"], int(newest["lsn"])
    if old is not None and (old["tx"], old["lsn"]) == (tx, lsn):
        counts |= {table: counts.get(table, 0) + count for table, count in old["count"].items()}
    return {"commit": commit, "tx": tx, "lsn": lsn, "count": counts}
