"""Tables join a stream at the place of a snapshot of theirs, with their definitions as of then."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.log_orders import BinlogOrder
from arctic_runtime.ingest.transports.debezium.stream.joining import (
    add_joining,
    exclude_joining,
    join_due_tables,
    select_tables,
    select_until,
)

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


def record(file: int, place: int, *changes: tuple[str, str]) -> dict[str, Any]:
    position = {"file": f"binlog.{file:06}", "pos": place}
    return {"position": position, "tableChanges": [{"type": kind, "id": table} for kind, table in changes]}


RECORDS = [
    record(9, 500),
    record(9, 500, ("DROP", '"shop"."a"')),
    record(9, 500, ("CREATE", '"shop"."a"')),
    record(10, 4, ("ALTER", '"shop"."b.c"')),
    record(10, 90, ("ALTER", '"shop"."a"'), ("CREATE", '"other"."a"')),
]
HISTORY = "".join(f"{json.dumps(record)}\n" for record in RECORDS)


def list_kept_lines(history: str) -> list[int]:
    return [RECORDS.index(json.loads(line)) for line in history.splitlines()]


def test_records_are_kept_whose_statement_ended_before_a_place() -> None:
    assert list_kept_lines(select_until(HISTORY, {"file": "binlog.000009", "pos": 499})) == []
    assert list_kept_lines(select_until(HISTORY, {"file": "binlog.000010", "pos": 4})) == [0, 1, 2, 3]
    assert select_until(HISTORY, {"file": "binlog.000010", "pos": 100}) == HISTORY


def test_records_are_kept_that_define_a_table() -> None:
    assert list_kept_lines(select_tables(HISTORY, ["shop.a"])) == [2, 4]
    assert list_kept_lines(select_tables(HISTORY, ["shop.b.c", "other.a"])) == [3, 4]


def test_a_record_ends_at_the_end_of_its_line_alone() -> None:
    text = json.dumps({**RECORDS[2], "ddl": "comment 'a\u2028b\x85c\x0b'"}, ensure_ascii=False)
    assert select_tables(f"{text}\n", ["shop.a"]) == f"{text}\n"
