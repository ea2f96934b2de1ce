"""Debezium's engine in this process: Java polls the source, and whole batches are passed to Python.

For each table and schema in a batch, one text is passed: the JSON of the events, separated by newlines, which JSON
never contains. No Python code runs for single events. Java's threads wait if batches are taken more slowly than they
arrive.
"""

from __future__ import annotations

import itertools
import json
import logging
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jpype
import pyarrow as pa
import pyarrow.compute as pc

from arctic_runtime.ingest.transports.debezium.event_metrics import disable_event_metrics, read_private_field
from arctic_runtime.ingest.transports.debezium.jvm import THREAD_OWNERS, get_class_loader, load_java_class, start_jvm
from arctic_runtime.ingest.transports.debezium.position import Position, Source
from arctic_runtime.thresholds import DebeziumThresholds

LOG = logging.getLogger(__name__)

_ENGINES = itertools.count(1)

ENVELOPE = ".Envelope"
"""Suffix of the names of schemas of change events; schemas of heartbeats and messages have other names."""


@dataclass(frozen=True)
class RecordSchema:
    """The schemas of a table's events and of their keys, as JSON of Kafka's JsonConverter.

    `key` is None for a table without a primary key. `has_key` is None if that is not known yet, since only truncates
    have been read, which have no key.
    """

    value: str
    key: str | None
    has_key: bool | None


@dataclass(frozen=True)
class SchemaEvents:
    """Events with one schema: the JSON of each (`payload`), and the index of each in the batch (`indexes`), from 0.

    Each schema object of the engine has its own `schema_id`. So a schema that appears again after another one is
    distinguished from its first appearance.
    """

    schema_id: int
    schema: RecordSchema
    payload: pa.ChunkedArray | pa.Array
    indexes: pa.Array


@dataclass(frozen=True)
class Receipt:
    """Java objects by which a batch is acknowledged to Debezium: its last record, and the committer."""

    last: Any
    committer: Any


@dataclass(frozen=True)
class Records:
    """A batch as the engine returns it: its events grouped by schema, in the order of each schema's first event.

    `partition` identifies the server. `first` and `offset` are the source offsets of the batch's first and last record.
    `receipt` acknowledges the batch.
    """

    events: tuple[SchemaEvents, ...]
    partition: Source
    first: Source
    offset: Source
    receipt: Receipt

    @property
    def bytes(self) -> int:
        """Number of bytes of the JSON of all events."""
        return sum(int(event_part.payload.nbytes) for event_part in self.events)


class EngineEnded(Exception):
    """Raised if the engine has stopped by itself; the text is the reason, and `cause` the Java exception, if any."""

    def __init__(self, text: str, cause: Any = None) -> None:
        super().__init__(text)
        self.cause = cause


class EmbeddedEngine:
    """A Debezium engine in this process, which can be started only once.

    All its Java threads are in a thread group of its own. Debezium itself does not notice if an error, such as one of
    memory, ends the thread that reads a binary log; the engine then ends.
    """

    def __init__(self, properties: Mapping[str, str], thresholds: DebeziumThresholds) -> None:
        start_jvm(thresholds.heap_bytes)
        self._calls = _Calls()
        self._thresholds = thresholds
        self._waiting: deque[Records] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._ended: EngineEnded | None = None
        self._owner = f"debezium {next(_ENGINES)}"
        self._group = load_java_class("java.lang.ThreadGroup")(self._owner)
        self._engine = self._build_engine(properties)
        self._thread = _create_java_thread(self._engine, self._group)

    def _build_engine(self, properties: Mapping[str, str]) -> Any:
        settings = load_java_class("java.util.Properties")()
        for key, value in properties.items():
            settings.setProperty(key, value)
        package = "io.debezium.engine"
        consumer = {"handleBatch": self._handle_records, "supportsTombstoneEvents": lambda: False}
        builder = (
            load_java_class(f"{package}.DebeziumEngine")
            .create(load_java_class(f"{package}.format.Json"))
            .using(settings)
        )
        builder = builder.notifying(jpype.JProxy(f"{package}.DebeziumEngine$ChangeConsumer", dict=consumer))
        builder = builder.using(self._calls.build_commit_policy(load_java_class(f"{package}.spi.OffsetCommitPolicy")))
        builder = builder.using(
            jpype.JProxy(f"{package}.DebeziumEngine$ConnectorCallback", dict=self._build_callbacks())
        )
        completion = {"handle": self._handle_completion}
        builder = builder.using(jpype.JProxy(f"{package}.DebeziumEngine$CompletionCallback", dict=completion))
        # An engine creates its pools of threads, which get the group of the thread that builds the engine.
        task = self._start_task(self._calls.build_call(builder, "build", load_java_class(f"{package}.DebeziumEngine")))
        try:
            return task.get()
        except jpype.JException as error:
            raise error.getCause() or error from error

    def _build_callbacks(self) -> dict[str, Callable[[], None]]:
        """Builds the Java callbacks for the engine's states.

        When polling starts, the callback switches off Debezium's metrics of single events.
        """
        states = ("connectorStarted", "connectorStopped", "taskStarted", "taskStopped", "pollingStopped")
        return {**dict.fromkeys(states, _do_nothing), "pollingStarted": lambda: disable_event_metrics(self._engine)}

    def start_engine(self) -> None:
        THREAD_OWNERS.add_owner(self._owner, self._end_with)
        self._thread.start()

    def take_records(self) -> Records | None:
        """Returns the next batch, or None if none arrives within the poll time.

        Raises EngineEnded after the last batch of an engine that has stopped.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or self._ended or self._closed, timeout=self._thresholds.take_seconds
            )
            if self._waiting:
                self._changed.notify_all()
                return self._waiting.popleft()
            if self._closed:
                return None
            if self._ended is not None:
                raise self._ended
        if str(self._thread.getState()) == "TERMINATED":
            raise self._ended or EngineEnded("its thread ended without a word, as it does without memory")
        return None

    def list_tables(self) -> dict[str, RecordSchema]:
        """Lists the tables that the engine reads, by `schema.table`, with the current schemas of their events.

        The tables are known when a snapshot has ended. This is needed for tables without rows: Debezium sends no event
        that contains their schema.
        """
        (task,) = read_private_field(self._engine, "tasks")
        schema = read_private_field(task.connectTask(), "schema")
        schemas = {}
        for table in schema.tableIds():
            table_schema = schema.schemaFor(table)
            key = None if table_schema.keySchema() is None else self._calls.write_schema_json(table_schema.keySchema())
            value = self._calls.write_schema_json(table_schema.getEnvelopeSchema().schema())
            name = f"{table.schema() or table.catalog()}.{table.table()}"
            schemas[name] = RecordSchema(value, key, key is not None)
        return schemas

    @property
    def has_waiting(self) -> bool:
        """Whether a batch is waiting to be taken."""
        return bool(self._waiting)

    def acknowledge_receipt(self, receipt: Receipt) -> None:
        """Passes a batch's receipt to the engine, which acknowledges the batch at its next poll.

        The source may then delete its log up to the end of the batch.
        """
        if not self._closed and self._ended is None:
            receipt.committer.markProcessed(receipt.last)
            receipt.committer.markBatchFinished()

    def stop_engine(self) -> None:
        """Stops the engine; if it does not stop in time, logs a warning and leaves it to end by itself."""
        seconds = self._thresholds.close_seconds
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        until = time.monotonic() + seconds
        while self._thread.isAlive() and time.monotonic() < until and not self._request_close(until):
            time.sleep(self._thresholds.close_poll_seconds)
        self._thread.join(_count_millis_until(until))
        THREAD_OWNERS.remove_owner(self._owner)
        if self._thread.isAlive():
            LOG.warning("Debezium did not stop within %.0f seconds; it is left to end by itself", seconds)

    def _request_close(self, until: float) -> bool:
        """Makes a Java thread close the engine, and waits for that no longer than `until` (monotonic clock).

        Returns False if the engine refuses because it is still starting.
        """
        nothing = load_java_class("java.lang.Void").TYPE
        task = self._start_task(self._calls.build_call(self._engine, "close", nothing))
        try:
            task.get(_count_millis_until(until), load_java_class("java.util.concurrent.TimeUnit").MILLISECONDS)
        except jpype.JException as error:
            return "starting" not in str(error)
        return True

    def _start_task(self, call: Any) -> Any:
        """Starts a Java thread that calls a Java Callable; returns the Future of its result."""
        task = load_java_class("java.util.concurrent.FutureTask")(call)
        _create_java_thread(task, self._group).start()
        return task

    def _handle_completion(self, _: bool, message: Any, error: Any) -> None:
        self._end_with(error, message)

    def _end_with(self, error: Any, message: Any = "a thread of Java ended") -> None:
        """Stores why the engine has ended, unless it has ended before."""
        with self._changed:
            if self._ended is None:
                self._ended = EngineEnded(str(message), error)
            self._changed.notify_all()

    def _handle_records(self, records: Any, committer: Any) -> None:
        """Receives a batch from Java, which calls this in one thread; blocks until there is room for another batch.

        Does nothing if the engine is closed.
        """
        if self._closed:
            return
        try:
            batch = self._calls.read_records(records, committer)
        except Exception as error:
            self._end_with(error, f"events can't be read: {error}")
            raise
        with self._changed:
            self._waiting.append(batch)
            self._changed.notify_all()
            most = self._thresholds.waiting_bytes
            self._changed.wait_for(lambda: self._closed or sum(records.bytes for records in self._waiting) < most)


def _create_java_thread(work: Any, group: Any) -> Any:
    """Creates a Java thread that runs the Java object `work`; the caller has to start it.

    The thread, and those that it creates, are in the Java thread group `group`. A Python thread would crash the
    process if it is in Java when Python ends.
    """
    thread = load_java_class("java.lang.Thread")(group, work, "debezium")
    thread.setDaemon(True)
    thread.setContextClassLoader(get_class_loader())
    return thread


def _do_nothing() -> None:
    """Does nothing."""


def _count_millis_until(until: float) -> int:
    """Number of milliseconds until `until`, a time of the monotonic clock; at least 1, since 0 is no limit in Java."""
    return max(1, round((until - time.monotonic()) * 1000))


def write_offsets(file: Path, name: str, position: Position) -> None:
    """Writes the position at which an engine continues to `file`, as Kafka Connect's FileOffsetBackingStore reads it.

    `name` is the name of the engine, which is part of the key of the offset.
    """
    key, value = position.to_stored_offset(name)
    offsets = load_java_class("java.util.HashMap")()
    offsets.put(_to_java_bytes(key), _to_java_bytes(value))
    stream = load_java_class("java.io.ObjectOutputStream")(load_java_class("java.io.FileOutputStream")(str(file)))
    try:
        stream.writeObject(offsets)
    finally:
        stream.close()


def _to_java_bytes(text: str) -> Any:
    return load_java_class("java.lang.String")(text).getBytes(
        load_java_class("java.nio.charset.StandardCharsets").UTF_8
    )


class _Calls:
    """Java objects and functions that convert a batch, created once, so that no Python code runs for single records."""

    def __init__(self) -> None:
        handles, kinds = (
            load_java_class("java.lang.invoke.MethodHandles").publicLookup(),
            load_java_class("java.lang.invoke.MethodType"),
        )
        as_interface = load_java_class("java.lang.invoke.MethodHandleProxies").asInterfaceInstance
        self._handles, self._kinds, self._as_interface = handles, kinds, as_interface
        function, collectors = (
            load_java_class("java.util.function.Function"),
            load_java_class("java.util.stream.Collectors"),
        )
        record, identity = (
            load_java_class("org.apache.kafka.connect.source.SourceRecord"),
            load_java_class("java.util.IdentityHashMap"),
        )
        schema = load_java_class("org.apache.kafka.connect.data.Schema")
        anything = load_java_class("java.lang.Object")
        self._integer = load_java_class("java.lang.Integer")

        def bind_method(owner: Any, name: str, result: Any) -> Any:
            return as_interface(function, handles.findVirtual(owner, name, kinds.methodType(result)))

        value = bind_method(load_java_class("io.debezium.engine.ChangeEvent"), "value", anything)
        source = bind_method(load_java_class("io.debezium.embedded.EmbeddedEngineChangeEvent"), "sourceRecord", record)
        schema_of = source.andThen(bind_method(record, "valueSchema", schema))
        empty = handles.findConstructor(identity, kinds.methodType(load_java_class("java.lang.Void").TYPE))
        supplier = as_interface(load_java_class("java.util.function.Supplier"), empty)
        texts = collectors.mapping(value, collectors.joining("\n"))
        self._by_schema = collectors.groupingBy(schema_of, supplier, texts)
        self._ids = identity()
        number = as_interface(function, handles.bind(self._ids, "get", kinds.methodType(anything, anything)))
        self._id = schema_of.andThen(number)
        int_value = handles.findVirtual(self._integer, "intValue", kinds.methodType(jpype.JInt))
        self._as_int = as_interface(load_java_class("java.util.function.ToIntFunction"), int_value)
        self._utf8 = load_java_class("java.nio.charset.StandardCharsets").UTF_8
        self._json = load_java_class("org.apache.kafka.connect.json.JsonConverter")()
        settings = load_java_class("java.util.HashMap")()
        settings.put("schemas.enable", "false")
        self._json.configure(settings, False)
        self._schemas: list[RecordSchema] = []

    def build_commit_policy(self, policy: Any) -> Any:
        """Builds an object of the Java interface `policy`: Debezium asks it after each poll whether to commit offsets.

        It answers yes if any records were processed since the last commit. It answers no after a poll without records,
        because a commit at that time could collide with a commit of `acknowledge_receipt` in another thread.
        """
        combine, number, yes = load_java_class("java.lang.invoke.MethodHandles"), jpype.JLong, jpype.JBoolean
        sign = self._handles.findStatic(
            load_java_class("java.lang.Long"), "signum", self._kinds.methodType(jpype.JInt, number)
        )
        is_any = combine.explicitCastArguments(sign, self._kinds.methodType(yes, number))
        return self._as_interface(
            policy, combine.dropArguments(is_any, 1, load_java_class("java.time.Duration").class_)
        )

    def build_call(self, target: Any, method: str, result: Any) -> Any:
        """Builds a Java Callable that calls a method without arguments of a Java object; `result` is its Java class."""
        bound = self._handles.bind(target, method, self._kinds.methodType(result))
        return self._as_interface(load_java_class("java.util.concurrent.Callable"), bound)

    def read_records(self, records: Any, committer: Any) -> Records:
        texts = [(entry.getKey(), entry.getValue()) for entry in records.stream().collect(self._by_schema).entrySet()]
        ids = [self._get_schema_number(schema, records) for schema, _ in texts]
        groups = zip(texts, ids, self._list_positions(ids, records), strict=True)
        events = [
            SchemaEvents(number, self._schemas[number], self._split_lines(text), indexes)
            for (schema, text), number, indexes in groups
            if str(schema.name()).endswith(ENVELOPE)
        ]
        events.sort(key=lambda event_part: event_part.indexes[0].as_py())
        last = records.get(records.size() - 1)
        record = last.sourceRecord()
        partition, offset = self._read_parts(record.sourcePartition()), self._read_parts(record.sourceOffset())
        first = self._read_parts(records.get(0).sourceRecord().sourceOffset())
        return Records(tuple(events), partition, first, offset, Receipt(last, committer))

    def _read_parts(self, java_map: Any) -> Source:
        """Converts the Java map of a record's partition or offset to a dict, by way of Kafka Connect's JSON."""
        parts: Source = json.loads(bytes(self._json.fromConnectData("", None, java_map)))
        return parts

    def _list_positions(self, ids: list[int], records: Any) -> list[pa.Array]:
        """Lists, for each schema number in `ids`, the indexes of its events among all records of the batch, from 0."""
        if len(ids) == 1:
            return [pa.array(range(records.size()), pa.int64())]
        schema_ids = records.stream().map(self._id).mapToInt(self._as_int).toArray()
        numbers = pa.Array.from_buffers(pa.int32(), len(schema_ids), [None, pa.py_buffer(memoryview(schema_ids))])
        return [pc.indices_nonzero(pc.equal(numbers, number)).cast(pa.int64()) for number in ids]

    def _split_lines(self, text: Any) -> pa.ChunkedArray | pa.Array:
        """Splits a Java string into lines, without creating a Python object for each line."""
        data = pa.py_buffer(memoryview(text.getBytes(self._utf8)))
        ends = pa.py_buffer(struct.pack("<qq", 0, len(data)))
        whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, data]).view(pa.large_string())
        return pc.split_pattern(whole, "\n").values

    def _get_schema_number(self, schema: Any, records: Any) -> int:
        """Returns the number of a Java schema object; a new object gets the next number.

        The JSON of a schema is built only when the object first appears. `records` are the batch, for the key's schema.
        """
        known_number = self._ids.get(schema)
        if known_number is None:
            known_number = self._integer(len(self._schemas))
            self._ids.put(schema, known_number)
            self._schemas.append(RecordSchema(self.write_schema_json(schema), None, None))
        number = int(known_number)
        if self._schemas[number].has_key is None and str(schema.name()).endswith(ENVELOPE):
            self._schemas[number] = self._with_key(self._schemas[number], schema, records)
        return number

    def _with_key(self, known: RecordSchema, schema: Any, records: Any) -> RecordSchema:
        """Returns `known` with the key's schema, taken from the first record of `schema` that is not a truncate.

        Truncates have no key. Returns `known` unchanged if all records are truncates.
        """
        for event in records:
            record = event.sourceRecord()
            if not schema.equals(record.valueSchema()):
                continue
            if record.keySchema() is not None:
                return RecordSchema(known.value, self.write_schema_json(record.keySchema()), True)
            if str(record.value().getString("op")) != "t":
                return RecordSchema(known.value, None, False)
        return known

    def write_schema_json(self, schema: Any) -> str:
        """Converts a Java schema to JSON, as JsonConverter writes it."""
        return str(self._json.asJsonSchema(schema).toString())
