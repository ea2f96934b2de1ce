"""Topics of Kafka, by plain batch reads of Spark between offsets that are known before.

Structured Streaming is not used: it keeps its positions in a checkpoint folder, while ours are in the tables, in the
commit of the rows themselves; and over Spark Connect its `foreachBatch` runs in the server, where this code is not.
Spark's source tells no offsets without reading events, so a small client asks for them (4 ms for a topic).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.transports.kafka_connection import KafkaConnection
from arctic_runtime.ingest.transports.kafka_offsets import (
    Kept,
    Offsets,
    Partition,
    Range,
    begin,
    decode,
    encode,
    moved,
    next_ranges,
    topics_of,
)
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, TableEvents
from arctic_runtime.profile import JARS_SETTING
from arctic_runtime.spark.engine.jars import GROUPS
from arctic_runtime.thresholds import TransportThresholds

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

KEY, PARTITION, OFFSET = "kafka_key", "kafka_partition", "kafka_offset"
"""Columns of events beside those of every transport."""

_PARTITION_BITS = 16
"""ARRIVAL has the offset of an event above so many bits with the number of its partition."""


class KafkaOffsets:
    """Asks Kafka for the partitions of topics and their offsets, of events whose transactions are committed."""

    def __init__(self, connection: KafkaConnection, seconds: float) -> None:
        try:
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise ConfigError("Reading from Kafka needs its client: pip install 'dbt-arctic[kafka]'") from error

        self._where = connection.servers
        self._seconds = seconds
        self._errors: list[str] = []
        settings: dict[str, Any] = {**connection.client_options(), "error_cb": self._note, "log_level": 0}
        try:
            self._admin = AdminClient(settings)
        except _kafka_errors() as error:
            raise ConfigError(f"The settings of Kafka can't be used: {_reason(error)}") from error

    def kept(self, topics: Sequence[str]) -> dict[Partition, Kept]:
        """What there is of every partition; raises SourceError where Kafka doesn't answer or has no such topic."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        partitions = [(topic, number) for topic in topics for number in self._partitions(topic)]
        first, end = (
            self._list({TopicPartition(*one): of for one in partitions})
            for of in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        return {one: Kept(first[one], end[one]) for one in partitions}

    def _partitions(self, topic: str) -> list[int]:
        found = self._asked(lambda: self._admin.list_topics(topic, timeout=self._seconds)).topics[topic]
        if found.error is not None:
            raise SourceError(
                f"Kafka has no topic {topic} that can be read.\n  where: {self._where}\n  found: {found.error.str()}\n"
                "  what to do: correct the topic of the table, or give this user the right to read it"
            )
        return sorted(found.partitions)

    def _list(self, asked: Mapping[Any, Any]) -> dict[Partition, int]:
        from confluent_kafka import IsolationLevel

        futures = self._admin.list_offsets(
            dict(asked), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._seconds
        )
        return {(of.topic, of.partition): self._asked(future.result).offset for of, future in futures.items()}

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except _kafka_errors() as error:
            self._admin.poll(0)
            reasons = [_reason(error), *dict.fromkeys(self._errors)]
            raise SourceError(
                f"Kafka doesn't answer.\n  where: {self._where}\n  found: {'; '.join(reasons)}\n"
                "  what to do: check the address, the user and the password, and whether the servers run"
            ) from error

    def _note(self, error: Any) -> None:
        self._errors = [*self._errors[-3:], str(error.str())]


class Kafka:
    """Events in topics of Kafka, each with the bytes of its value as they are.

    `tables` maps the source's names of tables to topics. Events of a partition are in order; those of a key have to be
    in one partition. A position has the offset to read next of every partition. `spark` gives a session.
    `has_tombstones` says that an event without a value only repeats that a row is deleted.
    """

    initial = encode({})

    def __init__(
        self,
        connection: KafkaConnection,
        tables: Mapping[str, str],
        spark: Callable[[], SparkSession],
        limits: TransportThresholds,
        has_tombstones: bool = False,
        skips_lost: bool = False,
    ) -> None:
        self._connection = connection
        self._tables = dict(tables)
        self._spark = spark
        self._limits = limits
        self._has_tombstones = has_tombstones
        self._skips_lost = skips_lost
        self._topics = tuple(dict.fromkeys(self._tables.values()))
        self._source = KafkaOffsets(connection, limits.answer_seconds)
        self._closed = threading.Event()
        self._position: Offsets = {}

    def check(self, position: str | None) -> None:
        """Raises SourceError where Kafka doesn't answer or events are lost, ConfigError where Spark lacks its JARs."""
        begin(decode(position or self.initial), self._source.kept(self._topics), self._skips_lost)
        check_jars(self._spark())

    def open(self, position: str) -> None:
        self._closed.clear()
        self._position = decode(position)

    def snapshots(self, position: str) -> bool:  # noqa: ARG002 - the interface
        """There are none: rows of a snapshot are events of a topic like others."""
        return False

    def batches(self, until_drained: bool) -> Iterator[Batch]:
        ends: Offsets | None = None
        while not self._closed.is_set():
            kept = self._source.kept(self._topics)
            if ends is None or not until_drained:
                ends = {partition: has.end for partition, has in kept.items()}
            offsets = begin(self._position, kept, self._skips_lost)
            ranges = next_ranges(offsets, ends, self._limits.batch_events)
            if ranges:
                self._position = moved(offsets, ranges)
                yield Batch(self._events(ranges), encode(self._position), sum(map(len, ranges)))
            elif until_drained:
                return
            else:
                self._closed.wait(self._limits.poll_seconds)

    def after(self, events: TableEvents, position: str) -> TableEvents:
        topic, offsets = self._tables[events.table], decode(position)
        reached = {number: offset for (of, number), offset in offsets.items() if of == topic}
        read = events.events
        if not callable(read):
            raise TypeError(f"events of {events.table} were read by Spark and are {type(read).__name__}")
        return replace(events, events=lambda spark: read(spark).where(_is_after(reached)))

    def acknowledge(self, batch: Batch) -> None:
        """Nothing is to do: Kafka deletes events by their age."""

    def close(self) -> None:
        self._closed.set()

    def _events(self, ranges: Sequence[Range]) -> tuple[TableEvents, ...]:
        by_topic = dict(topics_of(ranges))
        return tuple(
            TableEvents(table, None, partial(self._read, by_topic[topic]))
            for table, topic in self._tables.items()
            if topic in by_topic
        )

    def _read(self, ranges: Sequence[Range], spark: SparkSession) -> DataFrame:
        """The events of ranges of one topic; PARTITION and OFFSET say where each comes from, KEY has its key."""
        from pyspark.sql import functions as F

        topic = ranges[0].partition[0]
        options = {
            **self._connection.spark_options(),
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps({topic: [of.partition[1] for of in ranges]}),
            "startingOffsets": encode({of.partition: of.start for of in ranges}),
            "endingOffsets": encode({of.partition: of.end for of in ranges}),
        }
        read = spark.read.format("kafka").options(**options).load()
        if self._has_tombstones:
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


def check_jars(spark: SparkSession) -> None:
    """Raises ConfigError where a Spark was started without its source for Kafka."""
    from pyspark.errors import AnalysisException

    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
    try:
        _ = spark.read.format("kafka").options(**options).load().schema
    except AnalysisException as error:
        raise ConfigError(
            "Spark was started without its source for Kafka.\n"
            f"  expected: {', '.join(jar.coordinates for jar in GROUPS['kafka'])}\n  found: {error}\n"
            f"  what to do: set `{JARS_SETTING}: kafka` in server_side_parameters of the profile and start Spark anew, "
            "or install these packages on the Spark Connect server"
        ) from error


def _is_after(reached: Mapping[int, int]) -> Expression:
    """Whether an event comes after the offsets that partitions have reached; in others every event does."""
    from pyspark.sql import functions as F

    is_before = ((F.col(PARTITION) == number) & (F.col(OFFSET) < offset) for number, offset in reached.items())
    return ~reduce(or_, is_before, F.lit(False))


def _kafka_errors() -> tuple[type[Exception], ...]:
    from confluent_kafka import KafkaException

    return (KafkaException,)


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.str()) if hasattr(first, "str") else str(first)
