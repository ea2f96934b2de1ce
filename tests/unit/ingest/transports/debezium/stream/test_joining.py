"""Tables join a stream at the place of a snapshot of theirs, with their definitions as of then."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.log_orders import BinlogOrder
from arctic_runtime.ingest.transports.debezium.stream.joining import add_joining, exclude_joining, join_due_tables

SERVER: Any = SimpleNamespace(order=BinlogOrder())
CONNECTION = DebeziumConnection("mysql", "db", 3306, "shop", "reader", "", (r"shop\.a", r"shop\.b", r"shop\.c"))


def definition(table: str, pos: int) -> str:
    record = {"position": {"file": "b.1", "pos": pos}, "tableChanges": [{"type": "CREATE", "id": f'"shop"."{table}"'}]}
    return json.dumps(record) + "\n"


def at(pos: int, *tables: str) -> Position:
    history = "".join(definition(table, pos) for table in tables)
    return Position({}, {"file": "b.1", "pos": pos}, history=history)


def test_tables_join_where_their_load_ended_and_are_not_read_before() -> None:
    position = add_joining(at(10, "a"), ["shop.b"], at(50, "a", "b"))
    assert exclude_joining(CONNECTION, position).tables == (r"shop\.a", r"shop\.c")
    assert join_due_tables(SERVER, CONNECTION, position) == position
    joined = join_due_tables(SERVER, CONNECTION.select_tables(["shop.b"]), position)
    assert (joined.offset["pos"], joined.joining) == (50, ())
    assert joined.history == definition("a", 10) + definition("b", 50)


def test_a_table_that_is_loaded_again_joins_at_the_later_place_alone() -> None:
    position = add_joining(at(10, "a"), ["shop.b", "shop.c"], at(50, "b", "c"))
    position = add_joining(position, ["shop.b"], at(70, "b"))
    assert [(entry.tables, entry.offset["pos"]) for entry in position.joining] == [
        (("shop.c",), 50),
        (("shop.b",), 70),
    ]
    assert [entry.history for entry in position.joining][1] == definition("b", 70)


def test_a_stream_that_has_come_to_the_place_takes_the_tables_on_at_once() -> None:
    position = add_joining(at(60, "a"), ["shop.b"], at(50, "b"))
    joined = join_due_tables(SERVER, CONNECTION, position)
    assert (joined.offset["pos"], joined.joining) == (50, ())
