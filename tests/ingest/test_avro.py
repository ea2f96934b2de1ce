"""Events of Kafka in Avro, by the schemas of a registry, become tables with the types of these schemas."""

from __future__ import annotations

import datetime
import itertools
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame

from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.dead_letters.replay import replay_dead_letters
from arctic_runtime.ingest.formats.debezium import UNAVAILABLE
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.kafka.avro_messages import AvroMessages
from arctic_runtime.ingest.transports.kafka.schema_registry import RegistryConnection, SchemaRegistry
from arctic_runtime.ingest.transports.transport import MESSAGE, PAYLOAD
from arctic_runtime.thresholds import TransportThresholds
from tests.ingest.kafka_server import KafkaServer
from tests.ingest.test_kafka import dying
from tests.schema_registry import Registry, running_registry, wire
from tests.spark.warehouse import Warehouse

_topics = (f"avro{number}" for number in itertools.count(1))
KEY = {"type": "record", "name": "Key", "namespace": "shop.orders", "fields": [{"name": "id", "type": "long"}]}
PRICE = {
    "type": "bytes",
    "scale": 2,
    "precision": 20,
    "connect.version": 1,
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "20"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "logicalType": "decimal",
}
DAY = {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}
MOMENT = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
LAST_DAY = (datetime.date(2024, 2, 29) - datetime.date(1970, 1, 1)).days


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    name = next(_topics)
    kafka.create(name)
    return name


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry("me:s3cret-word") as registry:
        yield registry


def envelope(**columns: Any) -> dict[str, Any]:
    """The schema of Debezium's events as AvroConverter writes it."""
    fields = [{"name": "id", "type": "long"}]
    fields += [{"name": name, "type": ["null", kind], "default": None} for name, kind in columns.items()]
    source = [{"name": "ts_us", "type": ["null", "long"], "default": None}, {"name": "table", "type": "string"}]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.orders",
        "connect.name": "shop.orders.Envelope",
        "fields": [
            {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": fields}]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": {"type": "record", "name": "Source", "namespace": "io", "fields": source}},
            {"name": "op", "type": "string"},
        ],
    }


def event(op: str, before: Any, after: Any, table: str = "orders") -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"ts_us": 1_700_000_000_000_000, "table": table}}


def source_of(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topics: dict[str, str], **settings: Any
) -> IngestSource:
    own, columns, name = settings.pop("own", {}), settings.pop("columns", {}), settings.pop("name", "shop")
    tables = tuple(IngestedTable(table, table, lake.table(table), own, columns) for table in topics)
    login = {"url": registry.url, "user": "me", "password": "s3cret-word"}
    given = {"servers": kafka.address, "topics": topics, "schema_registry": login, **settings}
    return IngestSource(name, "kafka", given, tables, lake.table(f"{name}__dead_letters"), max_dead_letters=None)


def ingest(lake: Warehouse, source: IngestSource) -> list[BatchReport]:
    lake = lake.under(ingest={"lease_seconds": 0}, transports={"answer_seconds": 5})
    reports: list[BatchReport] = []
    connection = connect(source, lake.reader, lake.environment.new_session)
    Ingestion(source, connection, lake.reader, lake.environment.new_session, JobListeners(reports.append)).run(
        once=True
    )
    return reports


def rows(lake: Warehouse, *columns: str, table: str = "orders") -> set[tuple[Any, ...]]:
    return {tuple(row) for row in lake.spark.table(lake.sql_name(table)).select(*columns or "*").collect()}


def dead(lake: Warehouse) -> dict[str, str]:
    """Reasons of dead letters by their places."""
    letters = lake.spark.table(lake.sql_name("shop__dead_letters")).collect()
    return {row.origin.partition(":")[2]: row.reason for row in letters}


@pytest.mark.in_turn
def test_debeziums_events_become_rows_with_the_types_of_their_schema(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    key_id, id_ = registry.add(KEY), registry.add(envelope(price=PRICE, day=DAY, at=MOMENT, raw="bytes"))
    one = {"id": 1, "price": Decimal("-123456789012345678.90"), "day": LAST_DAY, "at": 1_500_000, "raw": b"\x00\xff"}
    two = {"id": 2, "price": None, "day": None, "at": None, "raw": None}

    def send(key: int, op: str, before: Any, after: Any) -> tuple[bytes, bytes]:
        return registry.encode(key_id, {"id": key}), registry.encode(id_, event(op, before, after))

    messages: list[tuple[bytes, bytes | None]] = [
        send(1, "c", None, {**one, "price": Decimal("0.01")}),
        send(2, "c", None, two),
        send(3, "c", None, {**two, "id": 3}),
        send(1, "u", None, one),
        send(3, "d", {**two, "id": 3}, None),
        (registry.encode(key_id, {"id": 3}), None),
        send(4, "c", None, {**two, "id": 4, "raw": b"\x01", "price": Decimal("0.00")}),
        send(4, "u", None, {**two, "id": 4, "raw": UNAVAILABLE.encode()}),
    ]
    kafka.send(topic, messages)
    ingest(lake, source_of(lake, kafka, registry, {"orders": topic}))
    raw, at = bytearray(b"\x00\xff"), datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000)
    found = lake.spark.table(lake.sql_name("orders"))
    assert dict(found.dtypes) == {
        "id": "bigint",
        "price": "decimal(20,2)",
        "day": "date",
        "at": "timestamp_ntz",
        "raw": "binary",
    }
    assert sorted(tuple(row) for row in found.collect()) == [
        (1, one["price"], datetime.date(2024, 2, 29), at, raw),
        (2, None, None, None, None),
        (4, None, None, None, bytearray(b"\x01")),
    ]
    assert dead(lake) == {}


@pytest.mark.in_turn
def test_a_schema_that_changes_within_a_batch_is_followed(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    """Each id is requested once, also by the process that goes on after one that died between the schemas."""
    key_id, old = registry.add(KEY), registry.add(envelope())
    same, new = registry.add({**envelope(), "doc": "no other columns"}), registry.add(envelope(note="string"))

    def send(schema_id: int, id_: int, **more: Any) -> tuple[bytes, bytes]:
        value = event("c", None, {"id": id_, **more})
        return registry.encode(key_id, {"id": id_}), registry.encode(schema_id, value)

    kafka.send(topic, [send(old, 1), send(same, 2), send(old, 3), send(new, 4, note="n"), send(new, 5, note=None)])
    source = source_of(lake, kafka, registry, {"orders": topic})
    with set_failpoint(dying("ingest.advance", False)), pytest.raises(KeyboardInterrupt):
        ingest(lake, source)
    registry.requests.clear()
    reports = ingest(lake, source)
    assert rows(lake, "id", "note") == {(1, None), (2, None), (3, None), (4, "n"), (5, None)}
    assert [report.count for report in reports] == [3, 2]
    ids = [path for path in registry.requests if "ids" in path]
    assert sorted(ids) == [f"/schemas/ids/{number}" for number in (key_id, old, same, new)]
    assert lake.spark.table(lake.sql_name("orders__changes")).count() == 5


def test_a_message_that_is_broken_is_a_dead_letter_with_its_bytes(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    id_ = registry.add(envelope(note="string"))
    good = registry.encode(id_, event("c", None, {"id": 1, "note": "n"}))
    broken = [b'{"op":"c"}', good[:-4], wire(id_, b""), b"\x00\x00", b"\x00" * 3 + b"\xff", b"\x00\xff\xff\xff\xff{}"]
    kafka.send(topic, [("k", value) for value in [*broken, good, registry.encode(id_, event("x", None, {"id": 2}))]])
    source = source_of(lake, kafka, registry, {"orders": topic}, own={"primary_key": ["id"]})
    ingest(lake, source)
    assert rows(lake) == {(1, "n")}
    no_head, no_record = "no Avro message: it does not begin with the byte 0", f"no record of the Avro schema {id_}"
    reasons = dead(lake)
    expected = [no_head, no_record, no_record, no_head, no_head, no_head]
    assert all(reasons[f"0:{place}"].startswith(text) for place, text in enumerate(expected))
    assert reasons["0:7"] == "unknown operation x"
    assert len(reasons) == 7
    letters = lake.spark.table(lake.sql_name("shop__dead_letters")).collect()
    assert {bytes(row.payload) for row in letters} >= set(broken)


ANY = ["string", "bytes", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}]


def encode_long(number: int) -> bytes:
    """Encodes a number that is not negative as Avro does."""
    zigzag, encoded = 2 * number, b""
    while zigzag > 0x7F:
        encoded += bytes([zigzag & 0x7F | 0x80])
        zigzag >>= 7
    return encoded + bytes([zigzag])


def test_no_bytes_end_ingestion(lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str) -> None:
    """Each message becomes a row or a dead letter, also if it says that a text has two gigabytes."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    fields = [{"name": "any", "type": ANY}, {"name": "many", "type": {"type": "array", "items": "null"}}]
    id_ = registry.add({"type": "record", "name": "R", "fields": fields})
    lengths = [2**31 - 100, 2**31 - 1, 2**30, 2**40]
    bodies = [encode_long(branch) + encode_long(length) + b"abc" for branch in range(4) for length in lengths]
    bodies += [encode_long(chance.randrange(4)) + chance.randbytes(chance.randrange(40)) for _ in range(150)]
    good = registry.encode(id_, {"any": "text", "many": [None]})
    kafka.send(topic, [("k", good), *[("k", wire(id_, body)) for body in bodies]])
    ingest(lake, source_of(lake, kafka, registry, {"log": topic}, format="rows", own={"primary_key": None}))
    letters = dead(lake)
    assert {f"0:{place}" for place in range(1, 17)} <= set(letters)
    assert lake.spark.table(lake.sql_name("log")).count() + len(letters) == len(bodies) + 1, f"seed {seed}"


@pytest.mark.in_turn
def test_dead_letters_are_decoded_again_by_their_schemas(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    id_ = registry.add({"type": "record", "name": "R", "fields": [{"name": n, "type": "string"} for n in ("id", "n")]})
    kafka.send(topic, [("k", registry.encode(id_, {"id": "1", "n": "3000000000"})), ("k", b"no event")])
    rows_of = {"format": "rows", "own": {"primary_key": ["id"]}}
    narrow = source_of(lake, kafka, registry, {"orders": topic}, columns={"n": "int"}, **rows_of)
    ingest(lake, narrow)
    assert dead(lake)["0:0"] == "column n: the value does not fit int"
    wide = source_of(lake, kafka, registry, {"orders": topic}, columns={"n": "bigint"}, **rows_of)
    connection = connect(wide, lake.reader, lake.environment.new_session)
    session = lake.environment.new_session
    [done] = replay_dead_letters(wide, connection.form, lake.reader, session, connection.read_messages)
    assert (done.read, done.applied, done.dead) == (2, 1, 1)
    assert rows(lake) == {("1", 3_000_000_000)}
    assert list(dead(lake)) == ["0:1"]


SMALL = {"type": "bytes", "precision": 3}
SIMPLE = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}
VALUES = {
    "type": "record",
    "name": "Values",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}},
        {"name": "wide", "type": {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 4}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "mac", "type": {"type": "fixed", "name": "Mac", "size": 2}},
        {"name": "other", "type": ["null", "int", "string"]},
        {"name": "number", "type": ["null", "int", "long"]},
        {"name": "prices", "type": {"type": "array", "items": {**SMALL, "logicalType": "decimal"}}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "days", "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}}},
        {"name": "place", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": ["null", "int"]}]}},
        {"name": "home", "type": ["null", "P"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "text", "type": {"type": "string", "avro.java.string": "String"}},
    ],
}


def test_values_of_plain_records_come_exactly(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    id_ = registry.add(VALUES)
    value = {
        "id": -(2**63),
        "price": Decimal("-1234567890123456789012345678901234.5678"),
        "wide": Decimal("1.5000"),
        "day": datetime.date(1, 1, 1),
        "at": datetime.datetime(1500, 1, 2, 3, 4, 5, 678_901, datetime.timezone.utc),
        "local": datetime.datetime(2024, 2, 29, 12, 0, 0, 7_000),
        "clock": datetime.time(23, 59, 59, 999_999),
        "kind": "B",
        "mac": b"\x00\xfe",
        "other": "text",
        "number": 5,
        "prices": [Decimal(-999), Decimal(0)],
        "tags": ["a", None, 'q"\n'],
        "days": [datetime.date(2024, 2, 29)],
        "place": {"x": None},
        "home": None,
        "f": 0.1,
        "d": float("inf"),
        "text": 'é\u2028\\"\U0001f600',
    }
    kafka.send(topic, [("k", registry.encode(id_, value))])
    source = source_of(lake, kafka, registry, {"orders": topic}, format="rows", own={"primary_key": ["id"]})
    ingest(lake, source)
    table = lake.spark.table(lake.sql_name("orders"))
    [found] = table.withColumn("at", table["at"].cast("string")).collect()
    assert dict(table.dtypes) == {
        "id": "bigint",
        "price": "decimal(38,4)",
        "wide": "binary",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "clock": "string",
        "kind": "string",
        "mac": "binary",
        "other": "string",
        "number": "bigint",
        "prices": "array<decimal(3,0)>",
        "tags": "array<string>",
        "days": "array<date>",
        "place": "string",
        "home": "string",
        "f": "float",
        "d": "double",
        "text": "string",
    }
    assert lake.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    expected = {
        **value,
        "wide": (15000).to_bytes(2, "big"),
        "at": "1500-01-02 03:04:05.678901",
        "clock": "23:59:59.999999",
        "other": '{"member_int":null,"member_string":"text"}',
        "place": '{"x":null}',
        "f": pytest.approx(0.1, abs=1e-8),
    }
    assert {name: bytes(own) if isinstance(own, bytearray) else own for name, own in found.asDict().items()} == expected


def test_records_are_appended_or_deleted_by_an_operation(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    names = ("id", "op")
    id_ = registry.add({"type": "record", "name": "R", "fields": [{"name": n, "type": "string"} for n in names]})
    changes = (("1", "upsert"), ("2", "upsert"), ("1", "delete"))
    kafka.send(topic, [("k", registry.encode(id_, {"id": own, "op": op})) for own, op in changes])
    settings = {"format": {"rows": {"operation": "op"}}, "own": {"primary_key": ["id"]}}
    ingest(lake, source_of(lake, kafka, registry, {"orders": topic}, **settings))
    assert rows(lake) == {("2",)}
    log = {"name": "other", "format": "rows", "own": {"primary_key": None}}
    ingest(lake, source_of(lake, kafka, registry, {"log": topic}, **log))
    assert rows(lake, table="log") == {("1", "delete"), ("1", "upsert"), ("2", "upsert")}


def test_tables_of_one_topic_get_their_own_events(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    id_, other = registry.add(envelope()), registry.add(envelope(note="string"))
    events = [
        (id_, event("c", None, {"id": 1})),
        (other, event("c", None, {"id": 2, "note": "n"}, "items")),
        (id_, event("c", None, {"id": 3}, "others")),
    ]
    kafka.send(topic, [("k", registry.encode(number, own)) for number, own in events])
    kafka.send(topic, [("k", b"broken")])
    topics = {"orders": topic, "items": topic}
    ingest(lake, source_of(lake, kafka, registry, topics, own={"primary_key": ["id"]}))
    assert (rows(lake), rows(lake, table="items")) == ({(1,)}, {(2, "n")})
    assert list(dead(lake)) == ["0:3"]


@pytest.mark.in_turn
def test_a_registry_that_cannot_be_read_loses_nothing(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    id_ = registry.add(envelope())
    kafka.send(topic, [("k", registry.encode(id_, event("c", None, {"id": 1})))])
    source = source_of(lake, kafka, registry, {"orders": topic}, own={"primary_key": ["id"]})
    ingest(lake, source)
    new = registry.add(envelope(note="string"), 77)
    kafka.send(topic, [("k", registry.encode(new, event("c", None, {"id": 2, "note": "n"})))])
    registry.answers["/schemas/ids/77"] = (500, {"message": "no s3cret-word"})
    with pytest.raises(SourceError, match=r"registry(?s:.*)/schemas/ids/77(?s:.*)HTTP 500") as refused:
        ingest(lake, source)
    assert "s3cret-word" not in str(refused.value)
    registry.answers["/schemas/ids/77"] = (404, {"error_code": 40403, "message": "Schema 77 not found"})
    with pytest.raises(SourceError, match="no schema with the id 77"):
        ingest(lake, source)
    assert rows(lake) == {(1,)}
    assert dead(lake) == {}
    registry.answers.clear()
    ingest(lake, source)
    assert rows(lake, "id", "note") == {(1, None), (2, "n")}


def test_a_registry_that_is_away_is_named_before_anything_is_read(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    registry.server.shutdown()
    registry.server.server_close()
    start = time.monotonic()
    with pytest.raises(SourceError, match=rf"schema registry(?s:.*){registry.url}(?s:.*)found: (?s:.*)what to do"):
        ingest(lake, source_of(lake, kafka, registry, {"orders": topic}, own={"primary_key": ["id"]}))
    assert time.monotonic() - start < 30


def test_types_that_can_not_be_kept_are_named(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    wide = {**PRICE, "precision": 64, "connect.parameters": {"scale": "2"}}
    id_ = registry.add(envelope(price=wide))
    kafka.send(topic, [("k", registry.encode(id_, event("c", None, {"id": 1, "price": None})))])
    with pytest.raises(ConfigError, match=r"column price(?s:.*)decimal\.handling\.mode"):
        ingest(lake, source_of(lake, kafka, registry, {"orders": topic}, own={"primary_key": ["id"]}))


def test_a_primary_key_that_no_field_has_is_named(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    kafka.send(topic, [("k", registry.encode(registry.add(SIMPLE), {"id": "1"}))])
    source = source_of(lake, kafka, registry, {"orders": topic}, format="rows", own={"primary_key": ["number"]})
    with pytest.raises(ConfigError, match="number"):
        ingest(lake, source)


def test_messages_that_are_no_records_are_named(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    kafka.send(topic, [("k", registry.encode(registry.add("string"), "text"))])
    source = source_of(lake, kafka, registry, {"orders": topic}, format="rows", own={"primary_key": ["id"]})
    with pytest.raises(SourceError, match=r"schema 1, which is no record(?s:.*)found: string"):
        ingest(lake, source)


def test_broken_messages_before_the_first_record_are_kept(
    lake: Warehouse, kafka: KafkaServer, registry: Registry, topic: str
) -> None:
    kafka.send(topic, [("k", b"broken")])
    source = source_of(lake, kafka, registry, {"orders": topic}, format="rows", own={"primary_key": ["id"]})
    ingest(lake, source)
    assert list(dead(lake)) == ["0:0"]
    kafka.send(topic, [("k", registry.encode(registry.add(SIMPLE), {"id": "1"})), ("k", None)])
    ingest(lake, source)
    assert rows(lake) == {("1",)}
    assert dead(lake)["0:2"] == "no value"


@pytest.mark.in_turn
def test_threads_plan_the_same_kept_messages_at_once(lake: Warehouse, registry: Registry) -> None:
    limits = TransportThresholds()
    reader = SchemaRegistry(RegistryConnection(registry.url, user="me", password="s3cret-word"), limits)
    message = registry.encode(registry.add(SIMPLE), {"id": "1"})
    spark = lake.environment.new_session()
    threads = 8
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(60):
            kept = AvroMessages(reader).read_messages(spark.createDataFrame([(message,)], f"{PAYLOAD} binary"))
            kept.persist()
            barrier = threading.Barrier(threads)

            def count_columns(number: int, kept: DataFrame = kept, barrier: threading.Barrier = barrier) -> int:
                barrier.wait()
                return len(kept.where(f"{MESSAGE} <> '{number}'").limit(0).toArrow().column_names)

            assert set(pool.map(count_columns, range(threads))) == {len(kept.columns)}
            kept.unpersist()
