"""Adds loaded tables to a stream at the position of their snapshot, with their definitions at that position.

The *joining* tables of a position are loaded tables that the stream does not read yet. Definitions are records of
Debezium's schema history, one JSON object per line, each with the binary log position at which its DDL statement ended
and the tables that the statement changed. A new engine applies, in order, the records up to the position at which the
engine begins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Joining, Position, Source
from arctic_runtime.ingest.transports.debezium.servers.log_orders import read_log_position
from arctic_runtime.ingest.transports.debezium.servers.source_server import SourceServer

_Record = dict[str, Any]


def select_until(history: str, offset: Source) -> str:
    """Selects the records whose statements ended at or before `offset`, an offset of the binary log."""
    return _select_records(
        history, lambda record: read_log_position({**record["position"], "row": 0}) <= read_log_position(offset)
    )


def select_tables(history: str, tables: Collection[str]) -> str:
    """Selects the records that define `tables`, named with their database (`shop.orders`)."""
    return _select_records(
        history, lambda record: any(_get_defined_table(change) in tables for change in record.get("tableChanges") or ())
    )


def _select_records(history: str, is_kept: Callable[[_Record], bool]) -> str:
    # JSON may have other ends of lines inside of its texts, such as that of a column's comment.
    return "".join(f"{line}\n" for line in history.split("\n") if line and is_kept(json.loads(line)))


def _get_defined_table(change: _Record) -> str | None:
    """Returns the table that a change in a record defines, as `shop.orders`; None for a drop.

    The change names the table as `"shop"."orders"`.
    """
    return None if change["type"] == "DROP" else str(change["id"])[1:-1].replace('"."', ".")


def add_joining(position: Position, tables: Collection[str], end: Position) -> Position:
    """Returns `position` with `tables` as joining: the stream will read them from `end`, the position of their load."""
    rest = [replace(joining, tables=tuple(sorted({*joining.tables} - {*tables}))) for joining in position.joining]
    new = Joining(tuple(tables), end.offset, select_tables(end.history or "", tables))
    return replace(position, joining=(*(joining for joining in rest if joining.tables), new))


def exclude_joining(connection: DebeziumConnection, position: Position) -> DebeziumConnection:
    """Returns a copy of the connection without the joining tables of `position`."""
    return connection.exclude_tables([table for joining in position.joining for table in joining.tables])


def join_first_tables(server: SourceServer, position: Position) -> Position:
    """Returns the position from which the stream also reads the tables of the first entry of `position.joining`.

    That entry is removed from `joining`, and the definitions of its tables are added to the history.
    """
    first, *others = position.joining
    joined = server.order.build_snapshot_position(Position(position.partition, first.offset), None)
    history = select_until(position.history or "", first.offset) + first.history
    return replace(joined, history=history, joining=tuple(others))


def join_due_tables(server: SourceServer, connection: DebeziumConnection, position: Position) -> Position:
    """Adds joining tables to the stream, if it has reached their start position or reads no other tables.

    Returns the position from which the stream then continues; `position` itself if no tables are due.
    """
    while position.joining and (
        not exclude_joining(connection, position).tables
        or server.order.has_come_to(position, position.joining[0].offset)
    ):
        position = join_first_tables(server, position)
    return position
