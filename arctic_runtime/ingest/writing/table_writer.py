"""Publishes batches of change events, and the rows of snapshots, to one arctic table, each exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import perform_effect, retry_on_conflict
from arctic_runtime.errors import CommitConflict
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.transport import TableEvents
from arctic_runtime.ingest.writing.decode_events import decode_events, is_change, is_read
from arctic_runtime.ingest.writing.event_frames import cache_rows, to_dataframe
from arctic_runtime.ingest.writing.fold import count_events, select_row_events
from arctic_runtime.ingest.writing.pipeline import EventPipeline, to_dead_letters
from arctic_runtime.ingest.writing.records import EventPart, KeepDeadLetters, SourcePosition, TableResult, WriteMode
from arctic_runtime.ingest.writing.table_schemas import TableSchemas
from arctic_runtime.ingest.writing.table_target import TableTarget
from arctic_runtime.model.columns import OWN_PREFIX
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import alias_as, fill_statement, quote_name, type_name
from arctic_runtime.spark.tables.commit import perform_statement
from arctic_runtime.spark.tables.internal import InternalTable, create_internal_table
from arctic_runtime.spark.tables.rows.frames import to_column


class SnapshotWriter:
    """Stores the rows of a table's snapshot in a staging table, and publishes them when the snapshot is complete."""

    def __init__(self, target: TableTarget, schemas: TableSchemas) -> None:
        self._target = target
        self._schemas = schemas
        self._stage = SnapshotStage(target.table.table, target.reader, target.spark)

    def begin_snapshot(self) -> None:
        """Drops the rows that `collect_rows` stored for an earlier snapshot."""
        self._stage.drop_rows()

    def collect_rows(self, events: TableEvents, keep: KeepDeadLetters) -> TableResult:
        """Stores those of `events` that are rows of a snapshot; `keep` gets the dead letters."""
        schema, form = self._schemas.find_schema(events), self._target.form.events
        decoding = decode_events(to_dataframe(self._target.spark(), events), form, schema)
        with cache_rows(decoding, is_read()) as decoded:
            counts = count_events(decoded)
            if counts.dead:
                state = self._target.open_by_key(schema.key).session.observe_state()
                keep(to_dead_letters(decoded, state, events.schema))
            if counts.rows:
                self._stage.append_rows(
                    select_row_events(decoded).select(*[to_column(own.name) for own in schema.columns])
                )
        read = counts.rows + counts.dead
        return TableResult(self._target.table.name, {}, read, counts.rows, 0, counts.dead, counts.newest)

    def end_snapshot(self, position: str) -> TableResult:
        """Publishes the differences between the table and the stored snapshot, and deletes the stored rows.

        The commit stores `position` as the table's source position.
        """
        rows = retry_on_conflict(lambda: self._publish_rows(position), self._target.attempts)
        self._stage.drop_rows()
        return TableResult(self._target.table.name, rows, 0, 0, 0, 0, None)

    def _publish_rows(self, position: str) -> dict[str, int]:
        key, schema = self._schemas.find_key(), self._schemas.newest
        storage = self._target.open_by_key(key)
        state, rows = storage.prepare_to_publish(), self._stage.read_rows(key)
        if rows is None and schema is not None:
            rows = _create_empty(self._target.spark(), schema)
        return storage.publish_snapshot(state, rows, schema, SourcePosition(position))


def _create_empty(spark: SparkSession, schema: SourceSchema) -> DataFrame:
    """Creates a DataFrame without rows, with the columns of a schema."""
    nulls = [
        alias_as(fill_statement("CAST(NULL AS {kind})", kind=type_name(column.type)), column.name)
        for column in schema.columns
    ]
    return spark.range(0).selectExpr(*nulls)


_RUN = f"{OWN_PREFIX}run"


class SnapshotStage:
    """The staging table for the rows of one table's snapshot.

    If another process has taken over the source, both may add rows for a while; each process reads only its own rows.
    """

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self.table = table.staging_name
        self._reader = reader
        self._spark = spark
        self._token = uuid.uuid4().hex
        self._has_rows = False

    def _exists(self) -> bool:
        """Whether the staging table exists; raises CommitConflict if it is gone with rows of this process."""
        exists = self.table.name in self._reader.list_relations(self.table.schema)
        if self._has_rows and not exists:
            raise CommitConflict(
                f"Another process has taken over the source, and dropped {self.table}.",
                expected="the rows of the snapshot that this process has stored there",
                fix="run again: the snapshot is read from its start, and nothing of this one was published",
            )
        return exists

    def append_rows(self, rows: DataFrame) -> None:
        """Adds rows to the staging table; creates it if needed, and adds columns that earlier rows did not have.

        Raises CommitConflict if another process creates or drops the table at the same time.
        """
        own = rows.withColumn(_RUN, F.lit(self._token))
        if self._exists():
            merged = own.writeTo(quote_name(*self.table.parts)).option("mergeSchema", "true")
            perform_effect("ingest.stage", merged.append, f"append to {self.table}", SPARK)
        else:
            internal = InternalTable(self.table, "snapshot", {"write.spark.accept-any-schema": "true"})
            create_internal_table("ingest.create_stage", self._reader, internal, own)
        self._has_rows = True

    def read_rows(self, key: tuple[str, ...]) -> DataFrame | None:
        """Returns all rows that this process stored, one for each primary key if `key` is not empty.

        None if there is no staging table. Raises CommitConflict if another process has dropped it.
        """
        if not self._exists():
            return None
        own = self._spark().table(quote_name(*self.table.parts)).where(F.col(_RUN) == self._token).drop(_RUN)
        return own.dropDuplicates(list(key)) if key else own

    def drop_rows(self) -> None:
        """Drops the staging table with all its rows, also those of other processes."""
        self._has_rows = False
        if self._exists():
            drop = fill_statement("DROP TABLE IF EXISTS {table} PURGE", table=quote_name(*self.table.parts))
            perform_statement("ingest.drop_stage", self._spark(), drop)


class TableWriter:
    """Writes batches to one table; leaves out events that the table already has, by the source position that it stores.

    `snapshot` stores rows of snapshots, and `schemas` determines the schemas of events.
    """

    def __init__(self, target: TableTarget) -> None:
        self.table = target.table
        self.schemas = TableSchemas(target)
        self.snapshot = SnapshotWriter(target, self.schemas)
        self._target = target
        self._position: SourcePosition | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the table exists. Needs no Spark."""
        return self._target.find_stored_key() is not None

    def write_events(self, part: EventPart, mode: WriteMode, keep: KeepDeadLetters) -> TableResult:
        """Publishes the events that the table does not have yet, and stores the table's new source position.

        `keep` gets the decoded events that can't be applied, before the table's commit. Raises ConfigError if the
        source changed the primary key, SourceError if it changed columns in an unknown way, and CommitConflict if other
        writers always commit first.
        """
        if part.events.schema is None and self._target.form.read_event_schema is not None:
            return self._keep_without_schema(part.events, keep)
        schema = self.schemas.find_schema(part.events)

        def write_once() -> TableResult:
            result, position = EventPipeline(self._target, part, schema, mode, self._position).run(keep)
            self._position = position or self._position
            return result

        return retry_on_conflict(write_once, self._target.attempts)

    def invalidate_position(self) -> None:
        """Drops the cached source position, since events will be read again; the next batch reads it from the table."""
        self._position = None

    def merge_base(self) -> None:
        """Merges unmerged changes into the base of a table with `merge: on_read`, if that is worth its cost.

        Runs alongside `write_events`, which does not merge: a merge may take as long as many batches. If another writer
        commits first, nothing is merged.
        """
        if not self.is_loaded:
            return
        session = self._target.open_by_key(self.schemas.find_key()).session
        with suppress(CommitConflict):
            session.reconcile_until_done(session.observe_state())

    def _keep_without_schema(self, events: TableEvents, keep: KeepDeadLetters) -> TableResult:
        """Passes the dead letters among events without a schema to `keep`, and counts the events; writes no rows."""
        rows = to_dataframe(self._target.spark(), events)
        with cache_rows(decode_events(rows, self._target.form.events, SourceSchema(())), is_change()) as decoded:
            counts = count_events(decoded)
            if counts.dead:
                keep(to_dead_letters(decoded, TableState(), events.schema))
        return TableResult(self.table.name, {}, counts.rows + counts.dead, counts.rows, 0, counts.dead, None)
