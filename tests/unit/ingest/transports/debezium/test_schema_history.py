"""Definitions of tables are kept up to a place of the binary log, or of some tables alone."""

from __future__ import annotations

import json
from typing import Any

from arctic_runtime.ingest.transports.debezium.stream.joining import select_tables, select_until


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
