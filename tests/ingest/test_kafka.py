"""Events of Kafka are read with their bytes as they are, in order, between offsets, and published exactly once."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.formats.registry import make_format
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection
from arctic_runtime.ingest.transports.kafka.offsets import decode_offsets
from arctic_runtime.ingest.transports.kafka.transport import Kafka, TopicTable
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch
from arctic_runtime.ingest.writing.event_frames import to_dataframe
from arctic_runtime.model.properties import PRIMARY_KEY
from arctic_runtime.thresholds import TransportThresholds
from tests.ingest.kafka_server import PASSWORD, USER, KafkaServer
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMITS = TransportThresholds()
ROWS = make_format("rows", {"operation": "op"})
Event = tuple[str, bytes | None]

_topics = (f"topic{number}" for number in itertools.count(1))


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return next(_topics)


def transport(spark: SparkSession, kafka: KafkaServer, topic: str, **settings: Any) -> Kafka:
    connection = settings.pop("connection", KafkaConnection(kafka.address))
    form, limits = settings.pop("form", ROWS), settings.pop("limits", LIMITS)
    return Kafka(connection, [TopicTable("t", topic)], form, lambda: spark, limits, **settings)


def read(spark: SparkSession, source: Kafka, position: str | None = None) -> list[tuple[Batch, list[Event]]]:
    """Batches, each with its events as ORIGIN and PAYLOAD, in the order of ARRIVAL."""
    source.open_at(position or source.initial)
    batches = []
    for batch in source.read_batches(until_drained=True):
        rows = [
            row
            for table in batch.tables
            for row in to_dataframe(spark, table).select(ARRIVAL, ORIGIN, PAYLOAD).collect()
        ]
        assert len({row[0] for row in rows}) == len(rows)
        rows.sort(key=lambda row: row[0])
        batches.append((batch, [(row[1], None if row[2] is None else bytes(row[2])) for row in rows]))
    return batches


def test_values_are_handed_over_as_they_are(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    values = [b'{"a":1}', b"\xff\xfe{", b"", None, b'{"b":"\xe2\x82']
    kafka.create(topic)
    kafka.send(topic, [("k", value) for value in values])
    [(batch, events)] = read(spark, transport(spark, kafka, topic))
    assert events == [(f"{topic}:0:{place}", value) for place, value in enumerate(values)]
    assert batch.count == 5
    assert decode_offsets(batch.position) == {(topic, 0): 5}


def test_tombstones_are_left_out_where_a_format_has_them(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [("k", b"1"), ("k", None), ("k", b"2")])
    [(batch, events)] = read(spark, transport(spark, kafka, topic, form=make_format("debezium", {})))
    assert [value for _, value in events] == [b"1", b"2"]
    assert decode_offsets(batch.position) == {(topic, 0): 3}


def test_partitions_are_in_order_and_batches_end_at_their_limit(
    spark: SparkSession, kafka: KafkaServer, topic: str
) -> None:
    kafka.create(topic, partitions=3)
    for partition in range(3):
        kafka.send(topic, [("k", f"{partition}-{number}") for number in range(20 * partition)], partition)
    source = transport(spark, kafka, topic, limits=TransportThresholds(batch_events=25))
    batches = read(spark, source)
    assert batches[0][0].count <= 25
    result = [(origin.split(":")[1], value) for _, events in batches for origin, value in events]
    for partition in range(3):
        own = [value for partition_name, value in result if partition_name == str(partition)]
        assert own == [f"{partition}-{number}".encode() for number in range(20 * partition)]


def test_events_of_a_transaction_come_when_it_is_committed(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [("k", "1")])
    kafka.send(topic, [("k", "lost")], transaction=f"{topic}!")
    kafka.send(topic, [("k", "2")], transaction=topic)
    source = transport(spark, kafka, topic)
    [(batch, events)] = read(spark, source)
    assert [value for _, value in events] == [b"1", b"2"]
    assert read(spark, source, batch.position) == []
    kafka.send(topic, [("k", "lost")], transaction=f"{topic}!")
    [(batch, events)] = read(spark, source, batch.position)
    assert events == []
    kafka.send(topic, [("k", "3")])
    [(_, events)] = read(spark, source, batch.position)
    assert [value for _, value in events] == [b"3"]


def test_events_up_to_a_position_are_left_out(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic, partitions=2)
    for partition in range(2):
        kafka.send(topic, [("k", f"{partition}-{number}") for number in range(4)], partition)
    source = transport(spark, kafka, topic)
    source.open_at(source.initial)
    batch = next(source.read_batches(until_drained=True))
    for position, left in (
        (source.initial, 8),
        (f'{{"{topic}":{{"0":3}}}}', 5),
        (f'{{"{topic}":{{"0":3,"1":1}}}}', 4),
        (batch.position, 0),
    ):
        assert to_dataframe(spark, source.select_after(batch.tables[0], position)).count() == left


def test_a_new_partition_is_read_from_its_first_event(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [("k", "1")])
    source = transport(spark, kafka, topic)
    [(batch, _)] = read(spark, source)
    kafka.widen(topic, 2)
    kafka.send(topic, [("k", "2")], partition=1)
    [(_, events)] = read(spark, source, batch.position)
    assert events == [(f"{topic}:1:0", b"2")]


def test_events_that_retention_deleted_are_an_error(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [("k", str(number)) for number in range(10)])
    kafka.drop_before(topic, 0, 4)
    source = transport(spark, kafka, topic)
    [(batch, events)] = read(spark, source)
    assert [value for _, value in events] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    kafka.send(topic, [("k", str(number)) for number in range(10, 14)])
    kafka.drop_before(topic, 0, 12)
    for act in (source.check_source, lambda position: read(spark, source, position)):
        with pytest.raises(SourceError, match=rf"topic {topic}, partition 0\n(?s:.*)offset 10\n(?s:.*)from 12 on"):
            act(batch.position)
    [(_, events)] = read(spark, transport(spark, kafka, topic, skips_lost=True), batch.position)
    assert [value for _, value in events] == [b"12", b"13"]


def test_a_topic_that_was_recreated_is_an_error(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [("k", "1"), ("k", "2")])
    source = transport(spark, kafka, topic)
    [(batch, _)] = read(spark, source)
    kafka.drop(topic)
    until_gone(source)
    with pytest.raises(SourceError, match=f"no topic {topic}"):
        source.check_source(batch.position)
    kafka.create(topic)
    with pytest.raises(SourceError, match="created again"):
        source.check_source(batch.position)


def until_gone(source: Kafka) -> None:
    """Waits for the end of a deletion, which a broker does later."""
    for _ in range(100):
        try:
            source.check_source(None)
        except SourceError:
            return
        time.sleep(0.1)
    raise AssertionError("the topic is still there")


def test_a_user_and_a_password_are_sent_to_both_clients(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [("k", "1")])
    source = transport(spark, kafka, topic, connection=KafkaConnection(kafka.guarded, USER, PASSWORD))
    source.check_source(None)
    assert len(read(spark, source)) == 1


def test_a_wrong_password_is_an_error_that_does_not_show_it(
    spark: SparkSession, kafka: KafkaServer, topic: str
) -> None:
    limits = TransportThresholds(answer_seconds=2)
    wrong = KafkaConnection(kafka.guarded, USER, "wrong-one")
    source = transport(spark, kafka, topic, connection=wrong, limits=limits)
    with pytest.raises(SourceError, match="Authentication failed") as refused:
        source.check_source(None)
    assert "wrong-one" not in str(refused.value)


def test_a_server_that_does_not_answer_is_named(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    limits = TransportThresholds(answer_seconds=1)
    source = transport(spark, kafka, topic, connection=KafkaConnection("127.0.0.1:9"), limits=limits)
    with pytest.raises(SourceError, match=r"doesn't answer(?s:.*)127\.0\.0\.1:9"):
        source.check_source(None)


def test_a_topic_without_new_events_confirms_the_position(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [("k", "1")])
    source = transport(spark, kafka, topic, limits=TransportThresholds(idle_seconds=0))
    source.open_at(source.initial)
    batches = source.read_batches(until_drained=False)
    first, second = next(batches), next(batches)
    assert (first.count, second.count, second.position) == (1, 0, first.position)
    assert (first.behind, second.behind) == (0, 0)
    assert first.caught_up is not None
    assert second.caught_up is not None
    assert first.caught_up < second.caught_up
    source.close_source()


def test_closing_ends_the_wait_for_events(spark: SparkSession, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [("k", "1")])
    source = transport(spark, kafka, topic)
    source.open_at(source.initial)
    batches = source.read_batches(until_drained=False)
    next(batches)
    source.close_source()
    assert list(batches) == []


# Into tables


def ingest(
    lake: Warehouse,
    kafka: KafkaServer,
    topics: dict[str, str],
    most: int = 1000,
    tables: dict[str, IngestedTable] | None = None,
    **settings: Any,
) -> list[BatchReport]:
    if tables is None:
        tables = {name: IngestedTable(name, name, lake.table(name), {}) for name in topics}
    given = {"servers": kafka.address, "topics": topics, **settings}
    source = IngestSource(
        "shop", "kafka", given, tuple(tables.values()), lake.table("shop__dead_letters"), max_dead_letters=None
    )
    lake = lake.under(ingest={"lease_seconds": 0}, transports={"batch_events": most})
    connection = connect(source, lake.reader, lake.environment.new_session)
    reports: list[BatchReport] = []
    job = Ingestion(source, connection, lake.reader, lake.environment.new_session, JobListeners(reports.append))
    job.run(once=True)
    return reports


def ingest_rows(lake: Warehouse, kafka: KafkaServer, topic: str) -> list[BatchReport]:
    columns = {"id": "bigint", "v": "string"}
    table = IngestedTable("orders", "orders", lake.table("orders"), {"primary_key": ["id"]}, columns)
    return ingest(lake, kafka, {"orders": topic}, 3, {"orders": table}, format={"rows": {"operation": "op"}})


def rows(lake: Warehouse, table: str = "orders") -> set[tuple[Any, ...]]:
    return {tuple(row) for row in lake.spark.table(lake.sql_name(table)).collect()}


def row(id_: int, v: str, op: str = "upsert") -> tuple[str, str]:
    return str(id_), f'{{"id":{id_},"v":"{v}","op":"{op}"}}'


def test_every_event_counts_once_wherever_the_process_dies(lake: Warehouse, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, [row(1, "a"), row(2, "b"), row(2, "", "delete"), row(3, "c"), ("x", "no event"), row(1, "d")])
    for name, after in (("commit.publish", True), ("ingest.advance", False)):
        with set_failpoint(dying(name, after)), pytest.raises(KeyboardInterrupt):
            ingest_rows(lake, kafka, topic)
        kafka.send(topic, [row(4, name), ("x", f"no event {name}")])
    ingest_rows(lake, kafka, topic)
    rows_now = rows(lake)
    assert {row for row in rows_now if row[0] != 4} == {(1, "d"), (3, "c")}
    assert (4, "ingest.advance") in rows_now
    dead = [row.origin for row in lake.spark.table(lake.sql_name("shop__dead_letters")).collect()]
    assert sorted(dead) == [f"{topic}:0:{offset}" for offset in (4, 7, 9)]
    assert ingest_rows(lake, kafka, topic) == []


def canal(table: str, kind: str, rows: list[dict[str, str]] | None, **types: str) -> tuple[str, str]:
    event = {"table": table, "database": "shop", "type": kind, "data": rows, "mysqlType": rows and types, "es": 1}
    return table, json.dumps({**event, "pkNames": rows and ["id"], "isDdl": rows is None})


@pytest.mark.slow
def test_columns_that_partitions_change_at_different_times_are_followed(
    lake: Warehouse, kafka: KafkaServer, topic: str
) -> None:
    """Every batch has one schema, and processes that die between two of them repeat nothing."""
    kafka.create(topic, partitions=2)
    for partition, changed_at in enumerate((2, 9)):
        ids = [10 * number + partition for number in range(10)]
        old = [canal("orders", "INSERT", [{"id": str(id_)}], id="int") for id_ in ids[:changed_at]]
        new = [
            canal("orders", "INSERT", [{"id": str(id_), "v": "new"}], id="int", v="varchar(9)")
            for id_ in ids[changed_at:]
        ]
        kafka.send(topic, [*old, canal("orders", "ALTER", None), *new], partition)
    with set_failpoint(dying("ingest.advance", False)), pytest.raises(KeyboardInterrupt):
        ingest(lake, kafka, {"orders": topic}, format="canal")
    reports = ingest(lake, kafka, {"orders": topic}, format="canal")
    assert [sum(table.rows.get("insert", 0) for table in report.tables) for report in reports][-1] == 9
    expected = {(10 * n + p, None if n < at else "new") for p, at in enumerate((2, 9)) for n in range(10)}
    assert rows(lake) == expected
    changes = lake.spark.table(lake.sql_name("orders__changes")).count()
    assert changes == len(expected)


def test_tables_that_share_a_topic_get_their_own_events(lake: Warehouse, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    events = [
        canal("orders", "INSERT", [{"id": "1"}], id="int"),
        canal("items", "INSERT", [{"id": "2", "v": "a"}], id="int", v="text"),
        canal("others", "INSERT", [{"id": "3"}], id="int"),
        canal("orders", "TRUNCATE", None),
        canal("orders", "INSERT", [{"id": "4"}], id="int"),
        ("x", "no event"),
    ]
    kafka.send(topic, events)
    ingest(lake, kafka, {"orders": topic, "items": topic}, format="canal")
    assert (rows(lake), rows(lake, "items")) == ({(4,)}, {(2, "a")})
    [dead] = lake.spark.table(lake.sql_name("shop__dead_letters")).collect()
    assert (dead["table"], dead["origin"]) == ("orders", f"{topic}:0:5")


def test_the_key_of_debeziums_events_is_that_of_kafka(lake: Warehouse, kafka: KafkaServer, topic: str) -> None:
    kafka.create(topic)
    fields = [{"field": "id", "type": "int64"}, {"field": "v", "type": "string"}]
    image = {"type": "struct", "fields": fields}
    schema = {"type": "struct", "fields": [{**image, "field": "before"}, {**image, "field": "after"}]}
    key = json.dumps({"schema": {"type": "struct", "fields": fields[:1]}, "payload": {"id": 1}})

    def event(op: str, before: Any, after: Any) -> str:
        payload = {"op": op, "before": before, "after": after, "source": {"table": "orders", "ts_us": 1}}
        return json.dumps({"schema": schema, "payload": payload})

    one = {"id": 1, "v": "a"}
    kafka.send(topic, [(key, event("c", None, one)), (key, event("d", one, None)), (key, None)])
    kafka.send(topic, [(key, event("c", None, {"id": 1, "v": "b"}))])
    ingest(lake, kafka, {"orders": topic}, format={"debezium": {"with_schema": True}})
    assert rows(lake) == {(1, "b")}
    properties = lake.reader.load_table(lake.namespace, "orders__changes").properties
    assert "id" in properties[PRIMARY_KEY]


def dying(name: str, after: bool) -> Any:
    def die(reached: str, action: Any) -> Any:
        if reached != name:
            return action()
        if after:
            action()
        raise KeyboardInterrupt

    return die
