"""Reads topics of Kafka by batch reads of Spark between offsets that are chosen before.

Structured Streaming is not used: it keeps its positions in a checkpoint folder, while this transport's positions are
stored in the tables, in the same commits as the rows; and over Spark Connect its `foreachBatch` runs in the server,
without this code. Spark's source does not return offsets without reading events, so a small client requests them (4 ms
for a topic).

If events describe their columns, a batch ends in each partition before the first event with other columns. So all
events of a table in a batch have one schema, and its position says exactly which events a table has. Events in Avro are
decoded to JSON by schemas that are read before the batch.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import Declared, EventFormat, Format, SourceSchema
from arctic_runtime.ingest.transports.kafka.avro_messages import AvroMessages, build_schema_mark, explain_missing_jars
from arctic_runtime.ingest.transports.kafka.connection import KafkaConnection, KafkaOffsets
from arctic_runtime.ingest.transports.kafka.offsets import (
    Offsets,
    Range,
    advance_offsets,
    choose_next_ranges,
    choose_start,
    count_events_left,
    cut_ranges,
    decode_offsets,
    encode_offsets,
    group_by_topic,
)
from arctic_runtime.ingest.transports.transport import (
    ARRIVAL,
    MESSAGE,
    ORIGIN,
    PAYLOAD,
    Batch,
    TableEvents,
    extract_payload_part,
    extract_schema_parts,
)
from arctic_runtime.thresholds import TransportThresholds

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True)
class TopicTable:
    """A table of a Kafka source: its name in the source, its topic, and the columns that the user declares."""

    name: str
    topic: str
    columns: Declared = field(default_factory=dict)


def check_topics(tables: Sequence[TopicTable], form: EventFormat) -> None:
    """Raises ConfigError if tables share a topic whose events do not name their table unambiguously."""
    by_topic: dict[str, list[TopicTable]] = {}
    for table in tables:
        by_topic.setdefault(table.topic, []).append(table)
    for topic, sharing in by_topic.items():
        names = [_get_event_table_name(table, form) for table in sharing]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if len(sharing) > 1 and (form.table is None or twice):
            raise ConfigError(
                f"Tables share the topic {topic}, and events of the format {form.name} don't name their table: "
                f"{', '.join(table.name for table in sharing)}",
                fix="give each table a topic of its own",
            )


def belongs_to(table: TopicTable, sharing: Sequence[TopicTable], form: EventFormat) -> Expression:
    """Builds the condition that an event of a topic belongs to `table`; `sharing` are all tables of the topic.

    An event that names no table belongs to the first of `sharing`, and becomes a dead letter of that table. Events of
    tables that are not ingested belong to none.
    """
    from pyspark.sql import functions as F

    if form.table is None:
        return F.lit(table == sharing[0])
    name = extract_payload_part(form.table)
    if form.namespace is not None and "." in table.name:
        name = F.concat_ws(".", extract_payload_part(form.namespace), name)
    is_own = name.eqNullSafe(F.lit(_get_event_table_name(table, form)))
    return is_own | extract_payload_part(form.table).isNull() if table == sharing[0] else is_own


def _get_event_table_name(table: TopicTable, form: EventFormat) -> str:
    """Returns the table's name as events contain it: with its schema if the format has a `namespace`, else without."""
    return table.name if form.namespace is not None else table.name.rpartition(".")[2]


KEY, PARTITION, OFFSET = "kafka_key", "kafka_partition", "kafka_offset"
"""Columns of events in addition to those of every transport: message key, partition number and offset."""

_PARTITION_BITS = 16
"""Number of low bits of ARRIVAL that hold the number of an event's partition; the bits above them hold its offset."""

_SCHEMA_PARTS, _EXAMPLE, _KEY_EXAMPLE = "kafka_schema_parts", "kafka_example", "kafka_key_example"


@dataclass(frozen=True)
class _FirstSchema:
    """The schema that the first events of a table in a batch contain; None if no event contains a schema.

    `others` maps a partition number to the offset of its first event with another schema; other partitions are left
    out.
    """

    schema: SourceSchema | None
    others: Mapping[int, int]


class Kafka:
    """Reads events from topics of Kafka, each with the unchanged bytes of its value.

    Events of a partition are in order; those of a key have to be in one partition. A position has the offset to read
    next of every partition. `spark` returns a session. With `skips_lost`, reading continues if Kafka deleted events
    before they were read. `avro` decodes messages that are not JSON. Raises ConfigError if tables share a topic whose
    events don't name their table.
    """

    initial = encode_offsets({})

    def __init__(
        self,
        connection: KafkaConnection,
        tables: Sequence[TopicTable],
        form: Format,
        spark: Callable[[], SparkSession],
        limits: TransportThresholds,
        skips_lost: bool = False,
        avro: AvroMessages | None = None,
    ) -> None:
        check_topics(tables, form.events)
        self._connection = connection
        self._tables = {table.name: table for table in tables}
        self._form = form
        self._spark = spark
        self._limits = limits
        self._skips_lost = skips_lost
        self._avro = avro
        self._topics = tuple(dict.fromkeys(table.topic for table in tables))
        self._source = KafkaOffsets(connection, limits)
        self._closed = threading.Event()
        self._position: Offsets = {}
        self._schemas: dict[str, SourceSchema] = {}
        self._avro_ids: dict[str, frozenset[int]] = {}

    def check_source(self, position: str | None) -> None:
        """Raises SourceError if Kafka or the registry doesn't answer or events are lost, ConfigError without JARs."""
        choose_start(decode_offsets(position or self.initial), self._source.list_kept(self._topics), self._skips_lost)
        ensure_jars(self._spark())
        if self._avro is not None:
            self._avro.check_source(self._spark())

    def open_at(self, position: str) -> None:
        self._closed.clear()
        self._position = decode_offsets(position)

    def begins_with_snapshot(self, position: str) -> bool:  # noqa: ARG002 - the interface
        """Returns False: rows of a snapshot are ordinary events of a topic."""
        return False

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        ends: Offsets | None = None
        reported = -math.inf
        asked = datetime.now(timezone.utc)
        while not self._closed.is_set():
            now = datetime.now(timezone.utc)
            offsets_kept = self._source.list_kept(self._topics)
            if ends is None or not until_drained:
                ends, asked = {partition: has.end for partition, has in offsets_kept.items()}, now
            offsets = choose_start(self._position, offsets_kept, self._skips_lost)
            ranges = self._cut_at_schema_change(choose_next_ranges(offsets, ends, self._limits.batch_events))
            if ranges:
                self._position = advance_offsets(offsets, ranges)
                rest = count_events_left(self._position, ends)
                reported = reported if rest else time.monotonic()
                caught_up = None if rest else asked
                count = sum(map(len, ranges))
                yield Batch(
                    self._build_table_events(ranges),
                    encode_offsets(self._position),
                    count,
                    caught_up=caught_up,
                    behind=rest,
                )
            elif until_drained:
                return
            elif time.monotonic() - reported > self._limits.idle_seconds:
                reported = time.monotonic()
                yield Batch((), encode_offsets(offsets), 0, caught_up=asked, behind=0)
            else:
                self._closed.wait(self._limits.poll_seconds)

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        topic, offsets = self._tables[events.table].topic, decode_offsets(position)
        reached = {number: offset for (topic_name, number), offset in offsets.items() if topic_name == topic}
        read = events.events
        if not callable(read):
            raise TypeError(f"events of {events.table} were read by Spark and are {type(read).__name__}")
        return replace(events, events=lambda spark: read(spark).where(~_is_before(reached)))

    def acknowledge_batch(self, batch: Batch) -> None:
        """Does nothing: Kafka deletes events by their age."""

    def close_source(self) -> None:
        self._closed.set()

    def _cut_at_schema_change(self, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
        """Shortens ranges to end, in each partition, before the first event with another schema of its table.

        Stores the schema of each table's first events in `_schemas`, for `_build_table_events`.
        """
        if self._form.read_event_schema is None:
            return ranges
        if self._avro is not None:
            read = {topic: self._read_messages(topic, own, self._spark()) for topic, own in group_by_topic(ranges)}
            self._avro_ids = {topic: self._avro.find_ids(messages) for topic, messages in read.items()}
        ends: dict[tuple[str, int], int] = {}
        for table, own in self._with_ranges(ranges):
            schema_parts = self._find_schema(table, own)
            if schema_parts.schema is not None:
                self._schemas[table.name] = schema_parts.schema
            for number, offset in schema_parts.others.items():
                ends[table.topic, number] = min(offset, ends.get((table.topic, number), offset))
        return cut_ranges(ranges, ends)

    def _find_schema(self, table: TopicTable, ranges: Sequence[Range]) -> _FirstSchema:
        from pyspark.sql import functions as F

        assert self._form.read_event_schema is not None
        grouped = self._with_schema_parts(self._read_table(table, ranges, self._avro_ids, self._spark()))
        rows: list[Row] = (
            grouped.where(F.col(_SCHEMA_PARTS).isNotNull())
            .groupBy(_SCHEMA_PARTS, PARTITION)
            .agg(
                F.min(OFFSET).alias("offset"),
                F.min(ARRIVAL).alias("first"),
                F.min_by(_EXAMPLE, ARRIVAL).alias("example"),
                F.min_by(_KEY_EXAMPLE, ARRIVAL).alias("key"),
            )
            .collect()
        )
        if not rows:
            return _FirstSchema(None, {})
        earliest = min(rows, key=lambda row: int(row["first"]))
        schema = self._form.read_event_schema(earliest["example"], earliest["key"], table.columns)
        others: dict[int, int] = {}
        for row in rows:
            if row[_SCHEMA_PARTS] != earliest[_SCHEMA_PARTS] and not self._has_schema(row, table, schema):
                others[row[PARTITION]] = min(row["offset"], others.get(row[PARTITION], row["offset"]))
        return _FirstSchema(schema, others)

    def _with_schema_parts(self, events: DataFrame) -> DataFrame:
        """Adds the parts of events that describe their schema, and the texts of event and key as `tell` takes them."""
        from pyspark.sql import functions as F

        if self._avro is not None:
            mark = build_schema_mark(F.col(MESSAGE))
            parts, example, key = mark, mark, build_schema_mark(F.col(KEY))
        else:
            parts = extract_schema_parts(self._form.events.schema)
            example, key = F.col(PAYLOAD).cast("string"), F.col(KEY).cast("string")
        return events.withColumns({_SCHEMA_PARTS: parts, _EXAMPLE: example, _KEY_EXAMPLE: key})

    def _has_schema(self, row: Row, table: TopicTable, schema: SourceSchema | None) -> bool:
        """Whether Avro events of another schema id have the columns and the key of `schema` all the same.

        False if that schema can't be used, so that the events before it are applied.
        """
        if self._avro is None or self._form.read_event_schema is None:
            return False
        try:
            return self._form.read_event_schema(row["example"], row["key"], table.columns) == schema
        except ConfigError:
            return False

    def _with_ranges(self, ranges: Sequence[Range]) -> list[tuple[TopicTable, tuple[Range, ...]]]:
        by_topic = dict(group_by_topic(ranges))
        return [(table, by_topic[table.topic]) for table in self._tables.values() if table.topic in by_topic]

    def _build_table_events(self, ranges: Sequence[Range]) -> tuple[TableEvents, ...]:
        return tuple(
            TableEvents(
                table.name, self._schemas.get(table.name), partial(self._read_table, table, own, self._avro_ids)
            )
            for table, own in self._with_ranges(ranges)
        )

    def _read_table(
        self, table: TopicTable, ranges: Sequence[Range], avro_ids: Mapping[str, frozenset[int]], spark: SparkSession
    ) -> DataFrame:
        """Reads the events of a table in `ranges`; `avro_ids` are the schemas of each topic's messages in Avro."""
        events = self._read_messages(table.topic, ranges, spark)
        if self._avro is not None:
            events = self._avro.decode_messages(events, avro_ids[table.topic])
        sharing = [other for other in self._tables.values() if other.topic == table.topic]
        return events if len(sharing) == 1 else events.where(belongs_to(table, sharing, self._form.events))

    def _read_messages(self, topic: str, ranges: Sequence[Range], spark: SparkSession) -> DataFrame:
        """Reads the messages of a topic in `ranges`, also with their PARTITION, OFFSET, and message key as KEY."""
        from pyspark.sql import functions as F

        options = {
            **self._connection.build_spark_options(),
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps({topic: [offset_range.partition[1] for offset_range in ranges]}),
            "startingOffsets": encode_offsets({offset_range.partition: offset_range.start for offset_range in ranges}),
            "endingOffsets": encode_offsets({offset_range.partition: offset_range.end for offset_range in ranges}),
        }
        read = spark.read.format("kafka").options(**options).load()
        if self._form.events.has_tombstones:
            read = read.where(F.col("value").isNotNull())
        offset, partition = F.col("offset"), F.col("partition")
        return read.select(
            F.col("value").alias(PAYLOAD),
            F.concat_ws(":", "topic", partition, offset).alias(ORIGIN),
            (F.shiftleft(offset, _PARTITION_BITS) + partition).alias(ARRIVAL),
            F.col("key").alias(KEY),
            partition.cast("bigint").alias(PARTITION),
            offset.alias(OFFSET),
        )


def ensure_jars(spark: SparkSession) -> None:
    """Raises ConfigError if Spark was started without the JARs of its Kafka source."""
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
    with explain_missing_jars("source for Kafka", "kafka"):
        _ = spark.read.format("kafka").options(**options).load().schema


def _is_before(reached: Mapping[int, int]) -> Expression:
    """Builds the condition that an event's offset is below the offset that `reached` has for its partition.

    The condition is false for partitions that are not in `reached`.
    """
    from pyspark.sql import functions as F

    is_before = ((F.col(PARTITION) == number) & (F.col(OFFSET) < offset) for number, offset in reached.items())
    return reduce(or_, is_before, F.lit(False))
