"""Restores an earlier version of a table by an ordinary commit of change rows with the differences."""

from __future__ import annotations

from functools import partial

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.model.columns import strip_change_columns
from arctic_runtime.model.run_summary import RunSummary, find_last_run, run_commits
from arctic_runtime.model.shape import ChangeSet, build_shape
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.refresh.from_query.images import read_rows_at
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.rows.frames import read_current_rows
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import find_version


def restore_version(session: TableSession, version: int | str) -> dict[str, int]:
    """Restores the rows of `version`, a snapshot id or a savepoint's name; returns numbers of changed rows by action.

    A table with `input: state` also returns to the offsets of that version, so its next run reads the changes of its
    upstreams since then. A table of change events keeps its offsets, so undone events are not read again. Raises
    ConfigError if the version is not kept, and CommitConflict if other writers are faster at every attempt.
    """
    return retry_on_conflict(partial(_restore_once, session, str(version)), session.reader.thresholds.commits.attempts)


def _restore_once(session: TableSession, version: str) -> dict[str, int]:
    state = session.reconcile_until_done(session.observe_state())
    table = session.model.table
    commit = find_version(session.reader, session.model, run_commits(state.changes), version)
    source = observe_source(session.reader, table)
    assert source is not None
    assert state.changes is not None
    assert state.changes.head is not None
    context = session.build_context(state)
    shape = build_shape(session.model, state, strip_change_columns(state.changes.columns))
    rows = read_rows_at(context.spark, source, commit.version, context.thresholds.pruning)
    old = read_current_rows(context.spark, session.model, state, context.thresholds.pruning)
    change_rows = diff_states(rows, old, shape)
    commit_plan = AppendChanges(table.changes, state.changes.head.snapshot, "full", "RESTORED")
    then = RunSummary.decode(commit.summary) if session.model.config.input == "state" else find_last_run(state.changes)
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
        clock=then.clock,
        high_watermark=then.high_watermark,
        truncated=then.truncated,
        declared=then.declared,
        position=then.position,
        position_events=then.position_events,
    )
    appended = publish_changes(ChangeSet(commit_plan, change_rows, shape, summary), context)
    session.reconcile_until_done(session.observe_state())
    return appended.rows
