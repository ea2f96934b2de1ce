"""Back to an earlier version of a table, as a change like any other: readers of changes see just what differs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from arctic_runtime.catalog.observe import observe_source
from arctic_runtime.effects import retried
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import plain_columns
from arctic_runtime.model.properties import (
    DECLARED,
    DECLARED_PARTS,
    GIVEN_UP,
    HIGH_WATERMARK,
    MODE,
    OFFSETS,
    QUERY,
    REASON,
    RESTORED,
    RUN,
    SESSION,
)
from arctic_runtime.model.run_summary import last_run, said_again
from arctic_runtime.model.shape import shape_of
from arctic_runtime.model.state import Commit, TableState
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.spark.maintenance.between import version_named
from arctic_runtime.spark.refresh.diff import state_changes
from arctic_runtime.spark.refresh.images import rows_at
from arctic_runtime.spark.tables.append import publish
from arctic_runtime.spark.tables.frames import current_rows
from arctic_runtime.spark.tables.table_session import TableSession

_READ = (
    OFFSETS,
    QUERY,
    SESSION,
    GIVEN_UP,
    HIGH_WATERMARK,
    DECLARED,
    DECLARED_PARTS,
)
"""What a run says of what it had read."""


def restore(session: TableSession, version: int | str) -> dict[str, int]:
    """Makes a table what it was at a version, a number or a savepoint's name; returns the changed rows by action.

    A table that a query says goes back to what it had read then, so its next run follows its upstreams again from
    there. A table of change events keeps what it has read: events that were undone don't come again. Raises ConfigError
    where the version is not kept, and CommitConflict where others were always faster.
    """
    return retried(partial(_restored, session, str(version)))


def _restored(session: TableSession, version: str) -> dict[str, int]:
    state = session.settled(session.observe())
    table = session.model.table
    commits = state.changes.commits if state.changes else ()
    commit = version_named(session, tuple(of for of in commits if RUN in of.summary), version)
    source = observe_source(session.reader, table)
    assert source is not None
    assert state.changes is not None
    assert state.changes.head is not None
    context = session.context(state)
    shape = shape_of(session.model, state, plain_columns(state.changes.columns))
    rows = rows_at(context.spark, source, commit.version)
    old = current_rows(context.spark, session.model, state)
    found = state_changes(rows, old, shape)
    commit_plan = AppendChanges(table.changes, state.changes.head.snapshot, "full", "RESTORED")
    summary = {RUN: context.token, MODE: commit_plan.mode, REASON: commit_plan.reason}
    summary |= {RESTORED: str(commit.version.snapshot), **_read(session, state, commit)}
    appended = publish(ChangeSet(commit_plan, found, shape, summary), context)
    session.settled(session.observe())
    return appended.rows


def _read(session: TableSession, state: TableState, commit: Commit) -> Mapping[str, str]:
    """What the table has read, once it is what it was at a commit."""
    then = commit.summary if session.model.config.input == "state" else last_run(state.changes)
    return said_again(then, *_READ)
