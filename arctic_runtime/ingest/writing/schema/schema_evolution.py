"""Changes a table's columns as its source did, before events with the new columns are applied to the table.

If a source renames a column, or adds one with a default, it sends no events for the existing rows. With
`schema_changes: evolve`, a renamed column is renamed in the arctic table too; with `safe`, the new column is added and
gets the values of the old one. A column that was added with a default gets the default in all older rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.writing.schema.source_columns import (
    ColumnChange,
    build_unfollowed_columns_error,
    find_column_change,
    read_numbers,
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
    where = f"{session.model.table}, from {session.model.ingested_from}"
    change = find_column_change(known, schema, where)
    if change.is_empty or session.model.config.on_schema_change == "fail":
        return state
    assert state.log is not None
    columns, stored = strip_change_columns(state.log.columns), to_stored_columns(schema)
    if session.model.config.on_schema_change == "sync_all_columns":
        _check_new_names(change, columns, where)
        storage = replace(storage, session=_with_renames(session, change.renamed))
        change = replace(change, renamed={})
    return storage.fill_columns(state, stored, _find_backfill_values(change, columns, stored, where))


def _with_renames(session: TableSession, renamed: Mapping[str, str]) -> TableSession:
    model = replace(session.model, config=replace(session.model.config, renamed_columns=renamed))
    return TableSession(model, session.reader, session.spark, session.now, session.timings)


def _check_new_names(change: ColumnChange, columns: tuple[Column, ...], where: str) -> None:
    """Raises SourceError if a column was renamed at the source to a name that another column of the table has.

    No error is raised if the table no longer has the old name, since an earlier run then renamed the column. `where`
    names the tables in the error.
    """
    for new, old in change.renamed.items():
        if find_column(columns, new) is not None and find_column(columns, old) is not None:
            raise build_unfollowed_columns_error(where, f"{old} was renamed to {new}, which the table has already")


def _find_backfill_values(
    change: ColumnChange, table: tuple[Column, ...], stored: tuple[Column, ...], where: str
) -> dict[str, Expression]:
    """Returns the values to set in all existing rows, by column: defaults of added columns, old values of renamed ones.

    `table` are the table's columns, `stored` its new ones. New columns that stay null are left out. `where` names the
    tables in errors.
    """
    values: dict[str, Expression] = {}
    for name, older in change.added.items():
        existing = find_column(table, name)
        if older.value is not None or existing is not None:
            values[existing.name if existing else name] = F.lit(older.value).cast(_find_type(stored, name))
    for new, old in change.renamed.items():
        existing = find_column(table, old)
        if existing is None or existing.type != _find_type(stored, new):
            raise build_unfollowed_columns_error(where, f"{old} was renamed to {new}, and has another type now")
        values[new] = to_column(existing.name)
    return values


def _find_type(stored: tuple[Column, ...], name: str) -> str:
    return next(column.type for column in stored if column.name == name)
