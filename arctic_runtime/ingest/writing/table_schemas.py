"""Determines the schemas of a table's events, and changes the table's columns as its source did.

A schema comes from the transport, the events, the declaration, or the stored table. Columns are changed before events
with the new ones are applied. If a source renames a column, or adds one with a default, it sends no events for the
existing rows. With `schema_changes: evolve`, a renamed column is renamed in the arctic table too; with `safe`, the new
column is added and gets the values of the old one. A column that was added with a default gets it in all older rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.event_format import Path, SourceColumn, SourceSchema
from arctic_runtime.ingest.source import IngestedTable, format_renames
from arctic_runtime.ingest.transports.transport import ARRIVAL, PAYLOAD, TableEvents, extract_schema_parts
from arctic_runtime.ingest.writing.event_frames import to_dataframe
from arctic_runtime.ingest.writing.source_columns import (
    ColumnChange,
    FollowedTable,
    build_unfollowed_columns_error,
    check_table_id,
    find_column_change,
    read_numbers,
    read_table_id,
    to_stored_columns,
)
from arctic_runtime.ingest.writing.table_target import TableStorage, TableTarget
from arctic_runtime.model.columns import (
    OWN_PREFIX,
    Column,
    find_column,
    is_same_name,
    list_reserved,
    strip_change_columns,
)
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.state import TableState
from arctic_runtime.spark.tables.rows.frames import to_column
from arctic_runtime.spark.tables.table_session import TableSession


class UnstorableColumns(ConfigError):
    """Raised if columns of a source have names that no column of the arctic table can have."""


def check_column_names(table: IngestedTable, schema: SourceSchema) -> None:
    """Raises UnstorableColumns if columns have reserved names, or two names that differ in nothing but case.

    `schema` has the names of the arctic table.
    """
    names = [column.name for column in schema.columns]
    reserved = list_reserved(names, has_change_table=bool(schema.key))
    twins = [name for place, name in enumerate(names) if any(is_same_name(name, earlier) for earlier in names[:place])]
    if not reserved and not twins:
        return
    event_names = {column.name: column.event_name for column in schema.columns}
    renamed = {event_names[name]: _suggest_name(name, names) for name in (*reserved, *twins)}
    shown = [f"{name} is reserved" for name in reserved]
    shown += [f"{name} differs from another column in nothing but case" for name in twins]
    raise UnstorableColumns(
        f"{table.table}: it can't have all columns of {table.source_name} under their names.",
        actual="; ".join(shown),
        fix=_advise(table, renamed),
    )


def _suggest_name(name: str, taken: list[str]) -> str:
    suggested = f"{name.strip('_')}_"
    while any(is_same_name(suggested, other) for other in taken):
        suggested += "_"
    return suggested


def _advise(table: IngestedTable, renamed: dict[str, str]) -> str:
    advice = f"give them other names in the table: {format_renames(renamed)}"
    if not table.reports_key:
        return advice
    patterns = ",".join(re.escape(f"{table.source_name}.{name}") for name in renamed)
    return (
        f"{advice}; or leave them out, by the Debezium property `column.exclude.list: {patterns}`; then "
        f"`arctic ingest --resync {table.name}`"
    )


_SCHEMA, _BEFORE = f"{OWN_PREFIX}schema", f"{OWN_PREFIX}before"


@dataclass(frozen=True)
class SchemaRun:
    """Consecutive events with one schema, from the ARRIVAL `start` on.

    `schema` is the JSON of the parts that describe the schema, and `example` the whole JSON of one event of the run.
    """

    start: int
    schema: str
    example: str


def find_schema_runs(events: DataFrame, paths: Sequence[Path]) -> list[SchemaRun]:
    """Returns the runs of events with equal schemas, in their order; empty if no event has a schema.

    `paths` lead to the parts of an event that describe its schema. Events without a schema, such as truncates, belong
    to the run in which they arrive.
    """
    payload = F.col(PAYLOAD).cast("string")
    with_schema = events.withColumn(_SCHEMA, extract_schema_parts(paths)).where(F.col(_SCHEMA).isNotNull())
    grouped = with_schema.groupBy(_SCHEMA).agg(F.min(ARRIVAL), F.max(ARRIVAL), F.min_by(payload, ARRIVAL))
    rows_by_start = sorted(grouped.collect(), key=lambda row: row[1])
    if all(before[2] < after[1] for before, after in pairwise(rows_by_start)):
        return [SchemaRun(row[1], row[0], row[3]) for row in rows_by_start]
    # Schemas alternate: events from before and after a change are mixed, such as those of two partitions.
    before = F.lag(_SCHEMA).over(Window.orderBy(ARRIVAL))
    starts = with_schema.withColumn(_BEFORE, before).where(~F.col(_SCHEMA).eqNullSafe(F.col(_BEFORE)))
    rows = starts.select(ARRIVAL, _SCHEMA, payload).orderBy(ARRIVAL).collect()
    return [SchemaRun(*row) for row in rows]


def split_by_runs(events: DataFrame, runs: Sequence[SchemaRun]) -> list[Callable[[SparkSession], DataFrame]]:
    """Splits events into one part for each of `runs`; events before the first run belong to the first part.

    Each part is a function that returns the part's events for a Spark session.
    """
    arrival = F.col(ARRIVAL)
    ends = [run.start for run in runs[1:]]
    parts = []
    for place in range(len(runs)):
        from_start = F.lit(True) if place == 0 else arrival >= runs[place].start
        to_end = F.lit(True) if place == len(runs) - 1 else arrival < ends[place]
        parts.append(serve_rows(events.where(from_start & to_end)))
    return parts


def serve_rows(rows: DataFrame) -> Callable[[SparkSession], DataFrame]:
    """Returns the function that `TableEvents` wants for rows which are in Spark already."""
    return lambda _: rows


class TableSchemas:
    """Determines the schemas of one table's events.

    `newest` is the schema that `find_schema` returned last, None before its first call.
    """

    def __init__(self, target: TableTarget) -> None:
        self.newest: SourceSchema | None = None
        self._target = target

    def find_key(self) -> tuple[str, ...]:
        """Returns the table's primary key, () for none: that of its newest events, else that of the stored table.

        If there is no stored table either, the key is the one that the user configured.
        """
        if self.newest is not None:
            return self.newest.key
        return self._target.find_stored_key() or self._target.table.key

    def find_schema(self, events: TableEvents) -> SourceSchema:
        """Returns the schema of events, with the key of the arctic table; also stores it as `newest`.

        Raises SourceError if neither the transport nor a declaration provides a schema, and UnstorableColumns if the
        table can't have the names of the columns.
        """
        table, schema = self._target.table, events.schema or self.read_declared()
        if schema is None:
            raise SourceError(
                f"{table.table}: the columns of {table.source_name} are not known: its events do not describe them.",
                fix="declare the source's columns with their `data_type` in the YAML",
            )
        schema = schema.rename_columns(table.renames)
        key = self._order_key(table.choose_key(schema.key))
        stored = replace(schema, key=key, is_key_chosen=set(key) != set(schema.key))
        check_column_names(table, stored)
        self.newest = stored
        return self.newest

    def read_declared(self) -> SourceSchema | None:
        """Returns the schema that the user declares; None if no column has a type."""
        table = self._target.table
        return self._target.form.declare(table.columns, table.key_in_source) if table.columns else None

    def split_by_schema(self, events: TableEvents) -> list[TableEvents]:
        """Splits events into parts with one schema each, in their order.

        Returns one part if no event contains a schema: with the newest schema, else the declared one, else the stored
        one.
        """
        form = self._target.form
        if events.schema is not None or form.read_event_schema is None:
            return [events]
        rows = to_dataframe(self._target.spark(), events)
        runs = find_schema_runs(rows, form.events.schema)
        if not runs:
            return [replace(events, schema=self.newest or self.read_declared() or self._read_stored())]
        schemas = [form.read_event_schema(run.example, None, self._target.table.columns) for run in runs]
        parts = zip(schemas, split_by_runs(rows, runs), strict=True)
        return [replace(events, schema=schema, events=part) for schema, part in parts]

    def _order_key(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """Returns `key` in the column order of the table's key; the schema of truncates may have another order."""
        known = self.newest.key if self.newest is not None else self._target.find_stored_key()
        return known if known is not None and set(known) == set(key) else key

    def _read_stored(self) -> SourceSchema | None:
        """Returns the schema of the stored table, for events that contain no schema; None if there is no table."""
        key = self._target.find_stored_key()
        if key is None:
            return None
        log = self._target.open_by_key(key).session.observe_state().log
        columns = strip_change_columns(log.columns) if log else ()
        old_names = {new: old for old, new in self._target.table.renames.items()}
        return SourceSchema(
            tuple(SourceColumn(old_names.get(column.name, column.name), column.type) for column in columns),
            tuple(old_names.get(name, name) for name in key),
        )


def evolve_schema(storage: TableStorage, state: TableState, schema: SourceSchema) -> TableState:
    """Changes a table's columns to those of `schema`, the schema of the next events; returns the state after that.

    If the process ends before all changes are made, the next process makes the rest. Raises SourceError if it can't be
    determined how the source changed its columns, and CommitConflict if another writer commits first.
    """
    session, known = storage.session, read_numbers(state)
    if known is None or find_last_run(state.log) is None:
        return state
    table = FollowedTable(session.model.table, str(session.model.ingested_from))
    check_table_id(read_table_id(state), schema, table)
    change = find_column_change(known, schema, table)
    if change.is_empty or session.model.config.on_schema_change == "fail":
        return state
    assert state.log is not None
    columns, stored = strip_change_columns(state.log.columns), to_stored_columns(schema)
    if session.model.config.on_schema_change == "sync_all_columns":
        _check_new_names(change, columns, table)
        storage = replace(storage, session=_with_renames(session, change.renamed))
        change = replace(change, renamed={})
    _check_added_values(session, change, stored, table)
    return storage.fill_columns(state, stored, _find_backfill_values(change, columns, stored, table))


def _with_renames(session: TableSession, renamed: Mapping[str, str]) -> TableSession:
    model = replace(session.model, config=replace(session.model.config, renamed_columns=renamed))
    return TableSession(model, session.reader, session.spark, session.now, session.timings)


def _check_new_names(change: ColumnChange, columns: tuple[Column, ...], table: FollowedTable) -> None:
    """Raises SourceError if a column was renamed at the source to a name that another column of the table has.

    No error is raised if the table no longer has the old name, since an earlier run then renamed the column.
    """
    for new, old in change.renamed.items():
        if find_column(columns, new) is not None and find_column(columns, old) is not None:
            raise build_unfollowed_columns_error(
                table, f"column {old} was renamed to {new}, and the arctic table has a column {new} already"
            )


def _find_backfill_values(
    change: ColumnChange, columns: tuple[Column, ...], stored: tuple[Column, ...], table: FollowedTable
) -> dict[str, Expression]:
    """Returns the values to set in all existing rows, by column: defaults of added columns, old values of renamed ones.

    `columns` are the table's columns, `stored` its new ones. New columns that stay null are left out.
    """
    values: dict[str, Expression] = {}
    for name, older in change.added.items():
        existing = find_column(columns, name)
        if older.value is not None or existing is not None:
            values[existing.name if existing else name] = _build_value(older.value, _find_type(stored, name))
    for new, old in change.renamed.items():
        existing = find_column(columns, old)
        if existing is None or existing.type != _find_type(stored, new):
            raise build_unfollowed_columns_error(table, f"column {old} was renamed to {new}, and has another type now")
        values[new] = to_column(existing.name)
    return values


def _check_added_values(
    session: TableSession, change: ColumnChange, stored: tuple[Column, ...], table: FollowedTable
) -> None:
    """Raises SourceError for a value in older rows that a column's type can't store, such as a date `infinity`."""
    values = {name: older.value for name, older in change.added.items() if older.value is not None}
    if not values:
        return
    built = [_build_value(value, _find_type(stored, name)).isNotNull() for name, value in values.items()]
    row = session.spark().range(1).select(*built).collect()[0]
    for (name, value), fits in zip(values.items(), row, strict=True):
        if not fits:
            what = f"column {name} was added with the default {value}, which {_find_type(stored, name)} can't store"
            raise build_unfollowed_columns_error(table, what)


def _build_value(value: str | None, kind: str) -> Expression:
    """Builds the literal for a value of OlderRows, of the type `kind`; null for a text that the type can't store."""
    if value is not None and kind == "binary":
        return F.unhex(F.lit(value))
    if value is not None and kind.startswith("array<"):
        element = kind[len("array<") : -1]
        return F.array(*[_build_value(part, element) for part in json.loads(value)]).cast(kind)
    return F.lit(value).try_cast(kind)


def _find_type(stored: tuple[Column, ...], name: str) -> str:
    return next(column.type for column in stored if column.name == name)
