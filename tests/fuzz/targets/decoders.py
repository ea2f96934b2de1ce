"""Decoders of what sources send: schemas in events, Avro schemas, positions, column types and schema histories."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from arctic_runtime.ingest.connectors import CONNECTORS, get_position_parser
from arctic_runtime.ingest.formats.avro_events import build_avro_format
from arctic_runtime.ingest.formats.avro_schema import SCHEMA_ID, parse_avro_schema
from arctic_runtime.ingest.formats.canal import get_rendering
from arctic_runtime.ingest.formats.declared import build_declared_column
from arctic_runtime.ingest.formats.event_format import Format, SourceSchema
from arctic_runtime.ingest.formats.maxwell import RENDERING
from arctic_runtime.ingest.formats.mysql_types import build_mysql_column
from arctic_runtime.ingest.formats.registry import FORMATS, make_format
from arctic_runtime.ingest.transports.debezium.position import read_position
from arctic_runtime.ingest.transports.debezium.servers.ddl_history import list_definitions
from arctic_runtime.ingest.transports.debezium.stream.joining import select_tables, select_until
from arctic_runtime.sql.types import read_type, type_text
from tests.fuzz.inputs import HOSTILE_TEXT, JSON, mutate_text, mutate_value, read_corpus
from tests.fuzz.target import Target, expect_typed_errors

KINDS = (
    "schema",
    "payload",
    "fields",
    "type",
    "field",
    "name",
    "parameters",
    "items",
    "mysqlType",
    "pkNames",
    "struct",
)


def _dump_event(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def check_event_schema(entry: Any) -> str:
    """A schema is read from any event, or refused; its types are types."""
    if not isinstance(entry, Mapping):
        return "ignored"
    options, declared, key = entry.get("options"), entry.get("declared"), entry.get("key")
    with expect_typed_errors() as outcome:
        form = make_format(str(entry.get("format")), options if isinstance(options, Mapping) else {})
        texts = {str(name): str(text) for name, text in declared.items()} if isinstance(declared, Mapping) else {}
        _check_schema(form.declare(texts, tuple(texts)[:1]))
        event_key = None if key is None else _dump_event(key)
        if form.read_event_schema is not None:
            schema = form.read_event_schema(_dump_event(entry.get("event")), event_key, texts)
            outcome.word = "no schema" if schema is None else "accepted"
            _check_schema(schema)
    return outcome.word


def _check_schema(schema: SourceSchema | None) -> None:
    for column in schema.columns if schema is not None else ():
        assert isinstance(column.name, str)
        read_type(column.type)


def check_avro_schema(entry: Any) -> str:
    """An Avro schema is parsed or refused, and so is a table of its records, in each format that can be Avro."""
    text = _dump_event(entry)
    with expect_typed_errors() as outcome:
        schema = parse_avro_schema(7, text, "registry")
        for name in FORMATS:
            _read_avro_columns(name, {7: schema})
    return outcome.word


def _read_avro_columns(name: str, schemas: Mapping[int, Any]) -> None:
    with expect_typed_errors():
        form: Format = build_avro_format(make_format(name, {}), schemas.__getitem__)
        assert form.read_event_schema is not None
        mark = json.dumps({SCHEMA_ID: 7})
        _check_schema(form.read_event_schema(mark, mark, {}))


def check_position(entry: Any) -> str:
    """Any text is parsed as a position, to one that can be shown and compared, if only as an opaque one."""
    texts = [str(part.get("text")) if isinstance(part, Mapping) else _dump_event(part) for part in entry]
    known = [None]
    for connector in CONNECTORS:
        parsed = [get_position_parser(connector.name)(text) for text in texts]
        known += [one.log_positions for one in parsed]
        for one in parsed:
            assert one.describe_position() is not None
            assert all(isinstance(one.is_within(other), bool) for other in parsed)
    for text in texts:
        with expect_typed_errors():
            read_position(text)
    return "accepted" if any(known) else "opaque"


def check_column_type(text: str) -> str:
    """A type is read or refused by each reader of types; what Spark's reader reads, it writes again."""
    words = []
    readers: tuple[Callable[[], object], ...] = (
        lambda: build_declared_column("a", text),
        lambda: build_mysql_column("a", text, RENDERING),
        lambda: build_mysql_column("a", text, get_rendering("UTC")),
    )
    for read in readers:
        with expect_typed_errors() as outcome:
            read()
        words.append(outcome.word)
    try:
        kind = read_type(text)
    except ValueError:
        return "accepted" if "accepted" in words else "refused"
    assert read_type(type_text(kind)) == kind
    return "accepted"


def check_schema_history(records: Any) -> str:
    """A history is read whatever names, defaults and statements its records have."""
    history = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    offset = {"file": "binlog.000001", "pos": 400}
    kept = select_until(history, offset) + select_tables(history, ["shop.orders"])
    assert {json.dumps(json.loads(line)) for line in kept.split("\n") if line} <= {json.dumps(one) for one in records}
    list_definitions(history, "shop", "orders")
    return "accepted"


@st.composite
def draw_histories(draw: st.DrawFn) -> Any:
    """Draws histories that Debezium could have written: names, defaults and statements are any text."""
    names = st.one_of(HOSTILE_TEXT, st.sampled_from(("id", "note", "remark"))).filter(lambda name: '"' not in name)
    records = []
    for record in json.loads(json.dumps(read_corpus("schema_histories"))):
        record["ddl"] = draw(mutate_text([record["ddl"]], ("CHANGE", "RENAME COLUMN", "DEFAULT", "AS", "GENERATED")))
        for change in record["tableChanges"]:
            for column in change.get("table", {}).get("columns", ()):
                column["name"] = draw(names)
                column["defaultValueExpression"] = draw(st.one_of(st.none(), HOSTILE_TEXT))
                column["typeName"] = draw(
                    st.sampled_from(("BIGINT", "VARCHAR", "DATETIME", "BIT", "FLOAT", "ENUM", ""))
                )
        records.append(record)
    return records


EVENTS = Target(
    "events",
    mutate_value(read_corpus("events"), KINDS),
    check_event_schema,
)
AVRO = Target(
    "avro schemas", st.one_of(mutate_value(read_corpus("avro_schemas"), KINDS), HOSTILE_TEXT), check_avro_schema
)
POSITIONS = Target(
    "positions",
    st.lists(
        st.one_of(
            st.sampled_from(read_corpus("positions")),
            mutate_value([json.loads(entry["text"]) for entry in read_corpus("positions")]),
            JSON,
            HOSTILE_TEXT,
        ),
        min_size=1,
        max_size=3,
    ),
    check_position,
)
TYPES = Target("column types", mutate_text(read_corpus("column_types")), check_column_type)
HISTORIES = Target("schema histories", draw_histories(), check_schema_history)
