"""Changes a table's columns as its source did, before events with the new columns are applied to the table.

If a source renames a column, or adds one with a default, it sends no events for the existing rows. With
`schema_changes: evolve`, a renamed column is renamed in the arctic table too; with `safe`, the new column is added and
gets the values of the old one. A column that was added with a default gets the default in all older rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.writing.schema.source_columns import (
    ColumnChange,
    FollowedTable,
    build_unfollowed_columns_error,
    check_table_id,
    find_column_change,
    read_numbers,
    read_table_id,
    to_stored_columns,
)
from arctic_runtime.ingest.writing.table_target import TableStorage
from arctic_runtime.model.columns import Column, find_column, strip_change_columns
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.state import TableState
from arctic_runtime.spark.tables.rows.frames import to_column
from arctic_runtime.spark.tables.table_session import TableSession


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
