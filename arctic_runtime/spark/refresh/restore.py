"""Back to an earlier version of a table, as a change like any other: readers of changes see just what differs."""

from __future__ import annotations

from functools import partial

from arctic_runtime.catalog.observe import observe_source
from arctic_runtime.effects import retried
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import plain_columns
from arctic_runtime.model.run_summary import RunSummary, last_run, run_commits
from arctic_runtime.model.shape import shape_of
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.spark.refresh.diff import state_changes
from arctic_runtime.spark.refresh.images import rows_at
from arctic_runtime.spark.tables.append import publish
from arctic_runtime.spark.tables.frames import current_rows
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import version_named


def restore(session: TableSession, version: int | str) -> dict[str, int]:
    """Makes a table what it was at a version, a number or a savepoint's name; returns the changed rows by action.

    A table that a query says goes back to what it had read then, so its next run follows its upstreams again from
    there. A table of change events keeps what it has read: events that were undone don't come again. Raises ConfigError
    where the version is not kept, and CommitConflict where others were always faster.
    """
    return retried(partial(_restored, session, str(version)), session.reader.thresholds.commits.attempts)


def _restored(session: TableSession, version: str) -> dict[str, int]:
    state = session.reconciled(session.observe())
    table = session.model.table
    commit = version_named(session, run_commits(state.changes), version)
    source = observe_source(session.reader, table)
    assert source is not None
    assert state.changes is not None
    assert state.changes.head is not None
    context = session.context(state)
    shape = shape_of(session.model, state, plain_columns(state.changes.columns))
    rows = rows_at(context.spark, source, commit.version, context.thresholds.pruning)
    old = current_rows(context.spark, session.model, state, context.thresholds.pruning)
    found = state_changes(rows, old, shape)
    commit_plan = AppendChanges(table.changes, state.changes.head.snapshot, "full", "RESTORED")
    then = RunSummary.decode(commit.summary) if session.model.config.input == "state" else last_run(state.changes)
    assert then is not None
    summary = RunSummary(
        run=context.token,
        mode=commit_plan.mode,
        reason=commit_plan.reason,
        restored=str(commit.version.snapshot),
        offsets=then.offsets,
        query=then.query,
        session=then.session,
        given_up=then.given_up,
        day_texts=then.day_texts,
        high_watermark=then.high_watermark,
        truncated=then.truncated,
        declared=then.declared,
        position=then.position,
        position_events=then.position_events,
    )
    appended = publish(ChangeSet(commit_plan, found, shape, summary), context)
    session.reconciled(session.observe())
    return appended.rows
