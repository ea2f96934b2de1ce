"""Adds loaded tables to a stream at the position of their snapshot, with their definitions at that position.

The *joining* tables of a position are loaded tables that the stream does not read yet.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Joining, Position
from arctic_runtime.ingest.transports.debezium.schema_history import select_tables, select_until
from arctic_runtime.ingest.transports.debezium.servers.source_server import SourceServer


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
