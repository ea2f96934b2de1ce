"""Tables of a source without a primary key: every sound event is one row, and nothing can be said of a row again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.ingest.formats.event_format import Change, EventFormat, SourceSchema
from arctic_runtime.ingest.writing.decode import ABSENT, CHANGE, REASON
from arctic_runtime.ingest.writing.keyed import UnfollowedKey, stored_columns
from arctic_runtime.ingest.writing.place import Place, SourceTimes, place_of
from arctic_runtime.ingest.writing.source_columns import forget_columns, note_columns
from arctic_runtime.model.columns import Column
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.schema import check_query
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.refresh.appended import prepare_to_append
from arctic_runtime.spark.tables.appended import append_rows, replace_rows
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.frames import list_frame_columns, to_column
from arctic_runtime.spark.tables.table_session import TableSession

_WITHOUT_KEY = "and the table has no primary key that tells which rows: name one in `primary_key`"
_REASONS: Mapping[Change, str] = {
    "update": f"an update changes a row, {_WITHOUT_KEY}",
    "delete": f"a delete takes a row away, {_WITHOUT_KEY}",
    "truncate": "a truncate takes away rows that were appended before: `arctic ingest --resync` reads the table again",
}
"""Why events of a kind can't be applied."""


def only_inserts(decoded: DataFrame, form: EventFormat) -> DataFrame:
    """Decoded events of a table without a key; those that do not insert a row, or not all of it, are dead letters.

    Events of a format that tells no operation are rows.
    """
    reason = F.when(F.col(ABSENT).isNotNull(), F.concat(F.lit("no value was sent of "), F.array_join(ABSENT, ", ")))
    for change, why in _REASONS.items() if form.operation is not None else ():
        reason = F.when(F.col(CHANGE) == change, F.lit(why)).otherwise(reason)
    return decoded.withColumn(REASON, F.coalesce(REASON, reason))


def check_appended(session: TableSession, state: TableState) -> None:
    """Raises where the table can't be appended to: another relation has its name, or its progress is lost."""
    model, found, table = session.model, state.conflicting, state.appended
    if found is not None and found.name == model.table.changes:
        raise ConfigError(
            f"{model.table}: its rows are kept by a primary key, and {model.ingested_from} has none now.\n"
            "  what to do: name columns that make a row unique in `primary_key` below `meta.arctic` of the table; or "
            f"let its rows be appended: `arctic reset {model.table.name} --yes`, then `arctic ingest --resync`"
        )
    if found is not None:
        raise ConfigError(
            f"{model.table}: another relation has its name.\n  found: the {found.kind} {found.name}, which ingestion "
            "did not create\n  what to do: drop or rename it, or give the table of the source another `identifier`"
        )
    if table is not None and not table.begins and find_last_run(table) is None:
        raise CorruptState(
            f"{model.table}: it is not known which events the table has, since its snapshots with "
            f"`arctic.position` have expired.\n  what to do: `arctic ingest --resync` reads the table again"
        )


def got_a_key(model: Model) -> UnfollowedKey:
    """The error for a table whose source got a primary key when rows were appended already."""
    key = ", ".join(model.config.primary_key)
    return UnfollowedKey(
        f"{model.table}: events are appended to it, since {model.ingested_from} had no primary key; now it has {key}.\n"
        f"  what to do: `primary_key: null` below `meta.arctic` of the table goes on like that; to keep rows by {key}: "
        f"`arctic reset {model.table.name} --yes`, then `arctic ingest --resync`"
    )


def append(
    session: TableSession,
    state: TableState,
    rows: DataFrame,
    schema: SourceSchema,
    place: Place,
    times: SourceTimes,
) -> TableState:
    """Appends rows with the columns of a schema as the table's next commit, which notes a place.

    Returns the state after it.
    """
    context = _prepared(session, state, stored_columns(schema))
    note_columns(session, context.state, schema)
    is_first = find_last_run(context.state.log) is None
    mode, reason = ("create", "FIRST_RUN") if is_first else ("incremental", "CHANGES")
    append_rows(rows, _summary(context, mode, reason, place).with_entries_from(times.note()), context)
    return session.observe_state()


def append_replayed(
    session: TableSession, state: TableState, rows: DataFrame, stored: tuple[Column, ...], letters: str
) -> TableState:
    """Appends the rows of dead letters, which the commit names; returns the state after it."""
    context = _prepared(session, state, stored)
    mode = "create" if find_last_run(context.state.log) is None else "incremental"
    append_rows(rows, replace(_summary(context, mode, "REPLAYED", place_of(state)), letters=letters), context)
    return session.observe_state()


def replace_all(
    session: TableSession, state: TableState, rows: DataFrame | None, schema: SourceSchema | None, place: Place
) -> None:
    """Puts rows in the place of all that the table has, as its next commit, which notes a place; None for no rows.

    `schema` is that of the newest of them, where any came.
    """
    if rows is None and state.appended is None:
        return
    stored = list_frame_columns(rows) if rows is not None else ()
    context = _prepared(session, state, stored or (state.appended.columns if state.appended else ()))
    if rows is not None and schema is not None:
        note_columns(session, context.state, schema)
    else:
        forget_columns(session, context.state)
    replace_rows(rows, _summary(context, "full", "RESYNCED", place), context)


def fill(
    session: TableSession,
    state: TableState,
    stored: tuple[Column, ...],
    values: Mapping[str, Expression],
    place: Place,
) -> TableState:
    """Brings the table's columns to `stored`, and gives all of its rows some values in one commit, if there are any."""
    context = _prepared(session, state, stored)
    if values:
        rows = context.spark.table(quote_name(*session.model.table.parts))
        new = rows.select(*[values.get(of, to_column(of)).alias(of) for of in rows.columns])
        replace_rows(new, _summary(context, "full", "SCHEMA_ONLY", place), context)
    return session.observe_state()


def _summary(context: Context, mode: str, reason: str, place: Place) -> RunSummary:
    had = str(place.events) if place.events else None
    return RunSummary(run=context.token, mode=mode, reason=reason, position=place.position, position_events=had)


def _prepared(session: TableSession, state: TableState, stored: tuple[Column, ...]) -> Context:
    """The context of a commit of rows with these columns, once the table is ready for them."""
    check_query(session.model, stored, stored)
    return prepare_to_append(session, state, stored)
