"""Commits of change rows to a table with a primary key, each of which notes a place in the source."""

from __future__ import annotations

from pyspark.sql import DataFrame

from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.writing.place import Place, SourceTimes, place_of
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import Column, strip_change_columns
from arctic_runtime.model.key import format_key
from arctic_runtime.model.properties import PRIMARY_KEY
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.shape import Shape, build_shape
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import AppendChanges, Reason
from arctic_runtime.model.table import Model
from arctic_runtime.plan.schema import to_stored_type
from arctic_runtime.spark.refresh.diff import diff_states
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.frames import read_current_rows
from arctic_runtime.spark.tables.table_session import TableSession


class UnfollowedKey(ConfigError):
    """The primary key of a source's table is another one than that of the table, or there is none."""


def check_key(model: Model, state: TableState) -> None:
    """Raises UnfollowedKey if a table is kept by another primary key than the source or the configuration has now."""
    kept = format_key(model.config.primary_key) if state.changes is None else state.changes.properties.get(PRIMARY_KEY)
    if kept != format_key(model.config.primary_key):
        raise UnfollowedKey(
            f"{model.table}: its primary key is another one now, and can't be changed in place.\n"
            f"  in the table: {kept}\n  in {model.ingested_from}: {format_key(model.config.primary_key)}\n"
            f"  what to do: `arctic reset {model.table.name} --yes`, then `arctic ingest --resync`"
        )


def stored_columns(schema: SourceSchema) -> tuple[Column, ...]:
    """The columns of a source's table as the arctic table keeps them."""
    return tuple(Column(of.name, to_stored_type(of.type)) for of in schema.columns)


def emptied(
    session: TableSession, state: TableState, place: Place, reason: Reason = "CHANGES"
) -> tuple[dict[str, int], TableState]:
    """Deletes all rows of a table, if it has any; returns their number and the state after that."""
    context = session.build_context(state)
    old = read_current_rows(context.spark, session.model, state, context.thresholds.pruning) if state.changes else None
    if state.changes is None or old is None:
        return {}, state
    shape = build_shape(session.model, state, strip_change_columns(state.changes.columns))
    rows = diff_states(old.limit(0), old, shape, keyed=True)
    return published(session, context, rows, shape, place, reason=reason)


def check_place(session: TableSession, state: TableState, expected: Place) -> None:
    """Raises CommitConflict where another writer has brought a table to another place since this one's last commit."""
    found = place_of(state)
    if found != expected:
        raise CommitConflict(
            f"Another writer committed first.\n  while: publish events to {session.model.table}\n"
            f"  expected: {expected}\n  found: {found}"
        )


def published(
    session: TableSession,
    context: Context,
    rows: DataFrame,
    shape: Shape,
    place: Place,
    times: SourceTimes | None = None,
    reason: Reason = "CHANGES",
    is_gathered: bool = False,
) -> tuple[dict[str, int], TableState]:
    """Publishes change rows as the table's next commit; returns their number by action, and the state after that.

    The table has the events of its source up to `place` then. `reason` says where the rows come from.
    `is_gathered` as of `ChangeSet`.
    """
    changes = context.state.changes
    assert changes is not None
    assert changes.head is not None
    table, head = session.model.table.changes, changes.head.snapshot
    is_first = find_last_run(changes) is None
    if is_first and reason == "CHANGES":
        reason = "FIRST_RUN"
    step = AppendChanges(table, head, "create" if is_first else "incremental", reason)
    had = str(place.events) if place.events else None
    own = RunSummary(
        run=context.token, mode=step.mode, reason=step.reason, position=place.position, position_events=had
    )
    summary = own if times is None else own.with_entries_from(times.note())
    appended = publish_changes(ChangeSet(step, rows, shape, summary, is_gathered), context)
    return appended.rows, session.reconcile_until_done(session.observe_state(), appended=appended, defer=True)
