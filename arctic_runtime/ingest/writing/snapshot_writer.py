"""The rows of a snapshot of one table are collected, and published when all are there."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.transport import TableEvents
from arctic_runtime.ingest.writing.decode import decode_events, is_read
from arctic_runtime.ingest.writing.event_frames import cache_rows, to_dataframe
from arctic_runtime.ingest.writing.fold import sound_rows, tally
from arctic_runtime.ingest.writing.pipeline import to_dead_letters
from arctic_runtime.ingest.writing.records import KeepDeadLetters, TableResult
from arctic_runtime.ingest.writing.snapshot_stage import SnapshotStage
from arctic_runtime.ingest.writing.source_position import SourcePosition
from arctic_runtime.ingest.writing.table_schemas import TableSchemas
from arctic_runtime.ingest.writing.table_target import TableTarget
from arctic_runtime.spark.engine.statement import alias_as, fill_statement, type_name
from arctic_runtime.spark.tables.frames import to_column


class SnapshotWriter:
    """Collects the rows of snapshots of a table that keeps its own until all rows of the snapshot are there."""

    def __init__(self, target: TableTarget, schemas: TableSchemas) -> None:
        self._target = target
        self._schemas = schemas
        self._stage = SnapshotStage(target.table.table, target.reader, target.spark)

    def begin_snapshot(self) -> None:
        """Drops the rows of an earlier snapshot."""
        self._stage.drop_rows()

    def collect_rows(self, events: TableEvents, keep: KeepDeadLetters) -> TableResult:
        """Collects the rows of a snapshot among events."""
        schema, form = self._schemas.find_schema(events), self._target.form.events
        decoding = decode_events(to_dataframe(self._target.spark(), events), form, schema)
        with cache_rows(decoding, is_read()) as decoded:
            counts = tally(decoded)
            if counts.dead:
                state = self._target.open_by_key(schema.key).session.observe_state()
                keep(to_dead_letters(decoded, state, events.schema))
            if counts.rows:
                self._stage.append_rows(sound_rows(decoded).select(*[to_column(own.name) for own in schema.columns]))
        read = counts.rows + counts.dead
        return TableResult(self._target.table.name, {}, read, counts.rows, 0, counts.dead, counts.newest)

    def end_snapshot(self, position: str) -> TableResult:
        """Publishes the difference between the table and the snapshot's rows, as of a position; deletes other rows."""
        rows = retry_on_conflict(lambda: self._publish_rows(position), self._target.attempts)
        self._stage.drop_rows()
        return TableResult(self._target.table.name, rows, 0, 0, 0, 0, None)

    def _publish_rows(self, position: str) -> dict[str, int]:
        key, schema = self._schemas.find_key(), self._schemas.newest
        storage = self._target.open_by_key(key)
        state, rows = storage.observe(), self._stage.read_rows(key)
        if rows is None and schema is not None:
            rows = _create_empty(self._target.spark(), schema)
        return storage.publish_snapshot(state, rows, schema, SourcePosition(position))


def _create_empty(spark: SparkSession, schema: SourceSchema) -> DataFrame:
    """Returns no rows, with the columns of a schema."""
    nulls = [
        alias_as(fill_statement("CAST(NULL AS {kind})", kind=type_name(column.type)), column.name)
        for column in schema.columns
    ]
    return spark.range(0).selectExpr(*nulls)
