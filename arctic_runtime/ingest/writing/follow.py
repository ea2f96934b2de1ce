"""A table does what its source did to columns, before events with the new ones are applied to it.

Sources send no events of rows for that. Where the table follows renames, its column is renamed; where it only adds
columns, the new one gets the values of the old one. A column that was added with a default has it in all older rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.writing.appended import fill
from arctic_runtime.ingest.writing.keyed import published, stored_columns
from arctic_runtime.ingest.writing.place import place_of
from arctic_runtime.ingest.writing.source_columns import (
    ColumnChange,
    column_change,
    known_numbers,
    unclear,
)
from arctic_runtime.model.columns import Column, find_column, strip_change_columns
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.shape import build_shape
from arctic_runtime.model.state import TableState
from arctic_runtime.plan.schema import check_query
from arctic_runtime.spark.refresh.diff import diff_states
from arctic_runtime.spark.refresh.prepare import prepare_tables
from arctic_runtime.spark.tables.frames import conform_frame, read_current_rows, to_column
from arctic_runtime.spark.tables.table_session import TableSession


def follow(session: TableSession, state: TableState, schema: SourceSchema) -> TableState:
    """Brings a table to the columns of events that are about to be applied; returns the state after that.

    Whatever the process does not get to is done by the next one. Raises SourceError where the source's change can't be
    followed exactly, and CommitConflict where another writer commits first.
    """
    known = known_numbers(state)
    if known is None or find_last_run(state.log) is None:
        return state
    where = f"{session.model.table}, from {session.model.ingested_from}"
    change = column_change(known, schema, where)
    if change.is_empty or session.model.config.on_schema_change == "fail":
        return state
    assert state.log is not None
    columns = strip_change_columns(state.log.columns)
    is_in_place = session.model.config.on_schema_change == "sync_all_columns"
    if is_in_place:
        _check_free(change, columns, where)
        config = replace(session.model.config, renamed_columns=change.renamed)
        model = replace(session.model, config=config)
        session = TableSession(model, session.reader, session.spark, session.now, session.timings)
    values = _values(change, columns, stored_columns(schema), is_in_place, where)
    return _followed(session, state, stored_columns(schema), values)


def _check_free(change: ColumnChange, columns: tuple[Column, ...], where: str) -> None:
    """Raises SourceError where a new name is that of another column. Without the old one, it was renamed already."""
    for new, old in change.renamed.items():
        if find_column(columns, new) is not None and find_column(columns, old) is not None:
            raise unclear(where, f"{old} was renamed to {new}, which the table has already")


def _values(
    change: ColumnChange, table: tuple[Column, ...], stored: tuple[Column, ...], is_in_place: bool, where: str
) -> dict[str, Expression]:
    """The values that columns get in all rows of the table; a new column is null in them anyway."""
    values: dict[str, Expression] = {}
    for name, older in change.added.items():
        kept = find_column(table, name)
        if older.value is not None or kept is not None:
            values[kept.name if kept else name] = F.lit(older.value).cast(_type_of(stored, name))
    for new, old in {} if is_in_place else change.renamed.items():
        kept = find_column(table, old)
        if kept is None or kept.type != _type_of(stored, new):
            raise unclear(where, f"{old} was renamed to {new}, and has another type now")
        values[new] = to_column(kept.name)
    return values


def _type_of(stored: tuple[Column, ...], name: str) -> str:
    return next(of.type for of in stored if of.name == name)


def _followed(
    session: TableSession, state: TableState, stored: tuple[Column, ...], values: Mapping[str, Expression]
) -> TableState:
    """Evolves the table's columns, and gives all of its rows some values in one commit."""
    if session.model.is_appended:
        return fill(session, state, stored, values, place_of(state))
    check_query(session.model, stored, stored)
    context, _ = prepare_tables(session, session.build_context(state), stored, "bigint")
    rows = (
        read_current_rows(context.spark, session.model, context.state, context.thresholds.pruning) if values else None
    )
    if rows is None or context.state.changes is None:
        return context.state
    shape = build_shape(session.model, context.state, strip_change_columns(context.state.changes.columns))
    old = conform_frame(rows, shape.columns)  # A snapshot has the columns of its time.
    new = _with(old, values)
    changes = diff_states(new, old, shape, keyed=True)
    return published(session, context, changes, shape, place_of(state), reason="SCHEMA_ONLY")[1]


def _with(rows: DataFrame, values: Mapping[str, Expression]) -> DataFrame:
    return rows.select(*[values.get(of, to_column(of)).alias(of) for of in rows.columns])
