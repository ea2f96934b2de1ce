"""Maxwell's events of DDL tell the schemas of their tables; for others they are declared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.formats.maxwell import MAXWELL, maxwell

COLUMNS: list[dict[str, Any]] = [
    {"type": "int", "name": "id", "signed": True},
    {"type": "bigint", "name": "torvalds", "signed": False},
    {"type": "timestamp", "name": "c", "column-length": 6},
    {"type": "set", "name": "s", "enum-values": ["a", "b"]},
    {"type": "varchar", "name": "comment", "charset": "latin1"},
]


def told(columns: list[dict[str, Any]], key: list[str], **declared: str) -> SourceSchema | None:
    tell = maxwell().tell
    assert tell is not None
    definition = {"database": "test", "charset": "utf8mb4", "table": "e", "columns": columns, "primary-key": key}
    return tell(json.dumps({"type": "table-alter", "table": "e", "def": definition}), None, declared)


def test_an_event_of_ddl_tells_columns_and_key() -> None:
    assert told(COLUMNS, ["id"]) == SourceSchema(
        (
            SourceColumn("id", "int"),
            SourceColumn("torvalds", "decimal(20,0)"),
            SourceColumn("c", "timestamp", "zoneless_timestamp"),
            SourceColumn("s", "string", "set_array"),
            SourceColumn("comment", "string"),
        ),
        ("id",),
    )


@pytest.mark.parametrize("kind", ["decimal", "bit", "binary"])
def test_sizes_that_events_do_not_tell_have_to_be_declared(kind: str) -> None:
    columns = [*COLUMNS, {"type": kind, "name": "sized"}]
    with pytest.raises(ConfigError, match=rf"size of column sized(?s:.*)declare it, such as {kind}\("):
        told(columns, ["id"])
    schema = told(columns, ["id"], sized=f"{kind}(5)")
    assert schema is not None
    assert schema.columns[-1].name == "sized"


@given(st.permutations(COLUMNS), st.integers(0, 3))
def test_columns_keep_their_order(columns: list[dict[str, Any]], size: int) -> None:
    names = [column["name"] for column in columns]
    schema = told(columns, names[:size])
    assert schema is not None
    assert [column.name for column in schema.columns] == names
    assert schema.key == tuple(names[:size])


def test_events_of_rows_tell_no_schema() -> None:
    tell = maxwell().tell
    assert tell is not None
    assert tell(json.dumps({"type": "insert", "table": "e", "ts": 1, "data": {"id": 1}}), None, {}) is None


def test_rows_of_a_bootstrap_are_those_of_a_snapshot_and_its_marks_say_nothing() -> None:
    assert MAXWELL.changes["bootstrap-insert"] == "read"
    assert {MAXWELL.changes[kind] for kind in ("bootstrap-start", "bootstrap-complete")} == {"ignored"}
