"""A transport for databases without Java: what it needs, and what it shows of a connection."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest import transports
from arctic_runtime.ingest.database_kinds import get_database_kind
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.transports.debezium.connection import (
    DebeziumConnection,
    build_engine_properties,
)
from arctic_runtime.ingest.transports.debezium.stream.batches import StreamEvents, join_batches, merge_events
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.ingest.transports.transport import ARRIVAL, PAYLOAD, Batch
from arctic_runtime.thresholds import SHIPPED

CONNECTION = DebeziumConnection(
    "postgresql", "db", 5432, "shop", "reader", "hush-hush", (r"public\.a", r"sales\..*"), "arctic_shop"
)


def test_without_debezium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [of for of in sys.modules if of.startswith("arctic_runtime.ingest.transports.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jpype", None)
    # An import sets a package as an attribute of its parent, which has to be the one of the other tests afterwards.
    monkeypatch.setattr(transports, "debezium", transports.debezium)
    with pytest.raises(ConfigError, match=r"pip install 'dbt-arctic\[cdc\]'"):
        DebeziumTransport(CONNECTION).check_source(None)


def test_a_password_is_shown_nowhere() -> None:
    assert "hush-hush" not in f"{CONNECTION!r} {CONNECTION.address}"
    assert CONNECTION.mask_password("url?password=hush-hush&user=reader") == "url?password=***&user=reader"


def test_a_password_that_is_a_name_is_not_taken_out_of_texts() -> None:
    """Otherwise messages would lose the names that they speak of."""
    assert replace(CONNECTION, password="shop").mask_password("no database shop") == "no database shop"
    assert replace(CONNECTION, password="").mask_password("nothing to hide") == "nothing to hide"


@pytest.mark.parametrize(
    ("password", "text", "shown"),
    [
        ("x", "An exception at x: x", "An exception at x: x"),
        ("x", "password=x", "password=***"),
        ("x", "jdbc:mysql://u:x@db/?password=x&user=x1", "jdbc:mysql://u:***@db/?password=***&user=x1"),
        ("x", "using {password: 'x', host: db}", "using {password: '***', host: db}"),
        ("tab", "no table in tab 'tab'", "no table in tab '***'"),
        ("pass", "passwords pass by", "passwords *** by"),
        (".+*?", "a.+*? .+*?", "a.+*? ***"),
        ("hush-hush", "xhush-hushx", "x***x"),
    ],
)
def test_a_short_password_is_masked_only_where_it_is_meant(password: str, text: str, shown: str) -> None:
    assert replace(CONNECTION, password=password).mask_password(text) == shown


def test_properties_of_the_user_win_over_those_of_the_server_and_ours() -> None:
    chosen = replace(CONNECTION, properties={"snapshot.fetch.size": "5", "poll.interval.ms": "7"})
    found = build_engine_properties(chosen, Path("/folder"), SHIPPED.debezium, {"poll.interval.ms": "6", "x.y": "1"})
    assert found["poll.interval.ms"] == "7"
    assert found["snapshot.fetch.size"] == "5"
    assert found["x.y"] == "1"
    assert found["table.include.list"] == r"(?-i)public\.a,(?-i)sales\..*"
    assert found["offset.storage.file.filename"] == "/folder/offsets"
    assert (found["slot.name"], found["publication.name"], found["topic.prefix"]) == ("arctic_shop",) * 3


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
def test_properties_by_which_values_of_mysql_are_exact_can_not_be_overridden(connector: str) -> None:
    inexact = {"driver.connectionTimeZone": "SERVER", "driver.yearIsDateType": "true", "snapshot.fetch.size": "5"}
    chosen = replace(CONNECTION, connector=connector, properties={**inexact, "poll.interval.ms": "7"})
    found = build_engine_properties(chosen, Path("/folder"), SHIPPED.debezium, {})
    assert (found["driver.connectionTimeZone"], found["driver.yearIsDateType"]) == ("+00:00", "false")
    assert found["poll.interval.ms"] == "7"
    assert "snapshot.fetch.size" not in found


@pytest.mark.parametrize(
    ("connector", "properties", "expected"),
    [
        ("postgresql", {}, {}),
        (
            "postgresql",
            {"database.sslmode": "verify-full", "database.sslrootcert": "/ca", "poll.interval.ms": "1"},
            {"sslmode": "verify-full", "sslrootcert": "/ca"},
        ),
        ("mariadb", {}, {}),
        (
            "mysql",
            {"database.ssl.mode": "verify_identity", "database.ssl.truststore": "/store"},
            {"sslMode": "VERIFY_IDENTITY", "trustCertificateKeyStoreUrl": "file:/store"},
        ),
    ],
)
def test_questions_are_encrypted_as_the_stream_is(
    connector: str, properties: dict[str, str], expected: dict[str, str]
) -> None:
    assert get_database_kind(connector).driver.build_tls_settings(properties) == expected


def test_readers_of_one_server_have_numbers_of_their_own() -> None:
    other = replace(CONNECTION, slot="arctic_other")
    assert CONNECTION.replica_id == replace(CONNECTION, host="x").replica_id
    assert CONNECTION.replica_id != other.replica_id
    assert replace(other, server_id=7).replica_id == 7
    assert 0 < other.replica_id < 2**32


def test_an_unknown_connector_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"postgresq.*did you mean .postgresql"):
        build_engine_properties(replace(CONNECTION, connector="postgresq"), Path(), SHIPPED.debezium, {})


@pytest.mark.parametrize(
    ("column", "is_read"),
    [
        ("public.a.id", True),
        ("PUBLIC.A.id", False),
        ("sales.b.id", True),
        ("sales.b.secret", False),
        ("public.b.id", False),
    ],
)
def test_columns_are_read_of_tables_that_are_and_unless_excluded(column: str, is_read: bool) -> None:
    connection = replace(CONNECTION, properties={"column.exclude.list": r"x\.y\.z, sales\..*\.secret"})
    assert connection.is_column_read(*column.rsplit(".", 1)) is is_read  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("column", "is_read"),
    [
        ("public.a.id", True),
        ("public.a.ID", True),
        ("public.a.code123", True),
        ("public.a.code12345", False),
        ("public.a.secret", False),
        ("sales.b.id", False),
    ],
)
def test_columns_that_a_list_does_not_include_are_not_read(column: str, is_read: bool) -> None:
    connection = replace(CONNECTION, properties={"column.include.list": r"public\.a\.id, public\.a\.code\d{1\,3}"})
    assert connection.is_column_read(*column.rsplit(".", 1)) is is_read  # type: ignore[call-arg]


def events(table: str, *columns: str) -> StreamEvents:
    schema = SourceSchema(tuple(SourceColumn(name, "int") for name in columns))
    return StreamEvents(table, schema, pa.table({"payload": [f"{table}{len(columns)}"]}))


def test_events_are_put_together_where_a_schema_was_only_read_again() -> None:
    found = merge_events(
        [events("a", "x"), events("b", "x"), events("a", "x"), events("a", "x", "y"), events("a", "x")]
    )
    shown = [(of.table, of.schema and len(of.schema.columns), of.events.num_rows) for of in found]
    assert shown == [("a", 1, 2), ("b", 1, 1), ("a", 2, 1), ("a", 1, 1)]


def test_joined_batches_keep_the_order_of_events_and_the_later_position() -> None:
    first = Batch((placed("a", [0, 2]), placed("b", [1])), "p1", 3)
    later = Batch((placed("b", [0]), placed("a", [1])), "p2", 2, progress="g2")
    found = join_batches(first, later)
    arrivals = {of.table: of.events[ARRIVAL].to_pylist() for of in found.tables if isinstance(of, StreamEvents)}
    assert arrivals == {"a": [0, 2, 4], "b": [1, 3]}
    assert (found.position, found.progress, found.count) == ("p2", "g2", 5)


def placed(table: str, arrivals: list[int]) -> StreamEvents:
    columns = {PAYLOAD: pa.array(["{}"] * len(arrivals)), ARRIVAL: pa.array(arrivals, pa.int64())}
    return StreamEvents(table, SourceSchema((SourceColumn("id", "int"),)), pa.table(columns))


def test_a_reader_alongside_the_stream_has_a_slot_of_its_own_that_ends_with_it() -> None:
    beside = replace(CONNECTION, slot="s" * 63, properties={"x": "1", "snapshot.mode": "no_data"}).for_load(
        ["public.a(b)"]
    )
    found = build_engine_properties(beside, Path("/folder"), SHIPPED.debezium, {})
    assert found["table.include.list"] == r"(?-i)public\.a\(b\)"
    assert found["slot.name"] == f"{'s' * 58}_load"
    assert (found["slot.drop.on.stop"], found["snapshot.mode"], found["x"]) == ("true", "initial", "1")
    assert (found["publication.name"], found["publication.autocreate.mode"]) == ("s" * 63, "disabled")
    assert found["topic.prefix"] == "s" * 63
    # By this it takes no table out of the publication that the stream still reads.
    assert beside.properties["publication.autocreate.mode"] == "disabled"
    assert "slot.drop.on.stop" not in replace(CONNECTION, connector="mysql").for_load(["a.b"]).properties
