"""Canal's flat messages tell the schemas of their tables."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.canal import CANAL, build_canal_format
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema

UPDATE = {
    "data": [{"id": "7", "price": "2.50", "kind": "2"}],
    "database": "shop",
    "es": 1700000000000,
    "id": 3,
    "isDdl": False,
    "mysqlType": {"id": "bigint(20) unsigned", "price": "decimal(10,2)", "kind": "enum('a','b')"},
    "old": [{"price": "2.00"}],
    "pkNames": ["id"],
    "sql": "",
    "sqlType": {"id": -5, "price": 3, "kind": 4},
    "table": "orders",
    "ts": 1700000000123,
    "type": "UPDATE",
}
DDL = {**UPDATE, "data": None, "old": None, "mysqlType": None, "pkNames": None, "isDdl": True, "type": "ALTER"}

_names = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    min_size=1,
    max_size=20,
    unique_by=str.lower,
)


def read_schema(event: dict[str, object], zone: str | None = None, **declared: str) -> SourceSchema | None:
    read_event_schema = build_canal_format(zone).read_event_schema
    assert read_event_schema is not None
    return read_event_schema(json.dumps(event), None, declared)


def test_an_event_of_rows_tells_columns_and_key() -> None:
    assert read_schema(UPDATE) == SourceSchema(
        (
            SourceColumn("id", "decimal(20,0)"),
            SourceColumn("price", "decimal(10,2)"),
            SourceColumn("kind", "string", "enum_index", ("a", "b")),
        ),
        ("id",),
    )


@given(_names, st.data())
def test_columns_keep_their_order_and_names(names: list[str], data: st.DataObject) -> None:
    key = data.draw(st.lists(st.sampled_from(names), unique=True))
    schema = read_schema({**UPDATE, "mysqlType": dict.fromkeys(names, "int"), "pkNames": key or None})
    assert schema == SourceSchema(tuple(SourceColumn(name, "int") for name in names), tuple(key))


def test_a_declaration_wins_over_the_schema_of_an_event() -> None:
    event = {**UPDATE, "mysqlType": {"id": "int", "at": "timestamp", "price": "decimal(65,30)"}}
    with pytest.raises(ConfigError, match="Column at "):
        read_schema(event, price="string")
    schema = read_schema(event, at="datetime", price="string")
    assert schema is not None
    assert [column.type for column in schema.columns] == ["int", "timestamp_ntz", "string"]


def test_timestamps_are_read_in_the_zone_of_the_server() -> None:
    schema = read_schema({**UPDATE, "mysqlType": {"id": "int", "at": "timestamp(3)"}}, zone="+08:00")
    assert schema is not None
    assert schema.columns[1] == SourceColumn("at", "timestamp", "zoneless_timestamp")
    assert build_canal_format("+08:00").events.zone == "+08:00"


@pytest.mark.parametrize("kind", ["ALTER", "TRUNCATE", "QUERY"])
def test_events_without_rows_tell_no_schema(kind: str) -> None:
    assert read_schema({**DDL, "type": kind}) is None


def test_only_truncate_changes_rows_among_events_of_ddl() -> None:
    assert CANAL.changes["TRUNCATE"] == "truncate"
    assert {CANAL.changes[kind] for kind in ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX")} == {"ignored"}


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "null", "{}"])
def test_an_event_that_is_no_object_tells_no_schema(text: str) -> None:
    read_event_schema = build_canal_format().read_event_schema
    assert read_event_schema is not None
    assert read_event_schema(text, None, {}) is None


@pytest.mark.parametrize("key", ["id", 7, {"id": 1}, ["id", 7]])
def test_names_of_a_key_that_are_no_list_of_texts_are_refused(key: object) -> None:
    with pytest.raises(ConfigError, match=r"orders: the schema in an event can't be read(?s:.*)pkNames"):
        read_schema({**UPDATE, "pkNames": key})
