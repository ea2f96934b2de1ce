"""Compaction: rewrites files without changing rows, so that reads are cheaper."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from typing_extensions import assert_never

from arctic_runtime.catalog.observation.manifests import observe_files, observe_partial_progress, observe_totals
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.files.compaction import (
    CompactionMode,
    CompactionPlan,
    CompactionStep,
    FileTotals,
    GroupId,
    MergeUnmerged,
    ResizeBuckets,
    RewriteBase,
    RewriteFiles,
    TableFiles,
    describe_compaction,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState, check_built, require_built
from arctic_runtime.model.table import Model
from arctic_runtime.plan.maintenance.compaction import (
    is_worth_a_look,
    list_rewritten_groups,
    may_be_due,
    plan_file_compaction,
)
from arctic_runtime.plan.maintenance.split import plan_split as split_alone
from arctic_runtime.plan.refresh.reconcile import plan_branch_cleanup
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession

Planner = Callable[[Iterable[GroupId]], tuple[TableState, CompactionPlan]]


@dataclass(frozen=True)
class Compacted:
    """Result of a compaction: the steps that were performed, and the plan of the remaining work after them.

    `plan` also says why some files are not rewritten. `next` is the step that was not begun, since it would have
    exceeded the limit of bytes; None if there is no such step.
    """

    steps: tuple[CompactionStep, ...]
    plan: CompactionPlan
    next: CompactionStep | None = None

    @property
    def bytes(self) -> int:
        """Total bytes of the files that the steps rewrote."""
        return sum(step.bytes for step in self.steps)


def plan_compaction(
    session: TableSession, mode: CompactionMode, done: Iterable[GroupId] = ()
) -> tuple[TableState, CompactionPlan]:
    """Plans a compaction without Spark; returns the observed state of the table and the plan.

    File groups in `done` are taken as compacted already. Raises ConfigError if there is no table yet.
    """
    state, model = session.observe_state(), session.model
    check_built(state, model.table)
    tables = _observe_tables(session, (model.table,) if model.is_appended else (model.base, model.table.changes))
    progress = observe_partial_progress(session.reader, model.base)
    files = [
        replace(table, finished_groups=frozenset(done), progress=progress if table.table == model.base else ())
        for table in tables
    ]
    return state, plan_file_compaction(model, state, files, mode, session.reader.thresholds)


def is_due(session: TableSession) -> bool:
    """Whether a compaction in the mode `auto` is due after a commit.

    For most tables the number of files decides this; manifests are read only for a table that may need a compaction.
    """
    plan = _plan_due(session, is_worth_a_look)
    return plan is not None and bool(plan.steps)


def find_due_compaction(session: TableSession) -> CompactionPlan | None:
    """Plans a compaction in the mode `auto`, without Spark; returns None if no file needs a rewrite.

    It reads the manifests of more tables than `is_due`, which is meant for a check after each commit, so it may take
    longer, and may find a compaction that `is_due` does not.
    """
    plan = _plan_due(session, may_be_due)
    return plan if plan is not None and plan.steps else None


def _plan_due(
    session: TableSession, is_wanted: Callable[[Model, TableName, FileTotals], bool]
) -> CompactionPlan | None:
    """Plans a compaction in the mode `auto` for the tables of the model that `is_wanted` selects by their file totals.

    Returns None if it selects no table.
    """
    model = session.model
    written = (model.table,) if model.is_appended else (model.base, model.table.changes)
    names = [table for table in written if is_wanted(model, table, observe_totals(session.reader, table))]
    if not names:
        return None
    thresholds = session.reader.thresholds
    return plan_file_compaction(model, session.observe_state(), _observe_tables(session, names), "auto", thresholds)


def compact_if_due(session: TableSession) -> None:
    """Compacts a table after a run, if this is due and the model does not turn it off.

    Conflicts with other writers are ignored.
    """
    if not session.model.config.compaction.automatic:
        return
    with suppress(CommitConflict):
        if is_due(session):
            with session.timings.measure_step("compact"):
                compact_table(session, "auto")


def _observe_tables(session: TableSession, names: Iterable[TableName]) -> list[TableFiles]:
    tables = [observe_files(session.reader, table_name) for table_name in names]
    return [table for table in tables if table is not None]


def plan_split(session: TableSession, done: Iterable[GroupId] = ()) -> tuple[TableState, CompactionPlan]:
    """Plans only splits and merges of the base table's buckets (hash nodes), without Spark.

    Returns the observed state of the table and the plan. File groups in `done` are taken as compacted already. Raises
    ConfigError if there is no table yet.
    """
    state = session.observe_state()
    _, base = require_built(state, session.model.table)
    (table,) = _observe_tables(session, [session.model.base]) or [TableFiles(session.model.base, base.snapshot, (), 1)]
    return state, split_alone(session.model, replace(table, finished_groups=frozenset(done)), session.reader.thresholds)


def split_table(session: TableSession) -> Compacted:
    """Splits buckets (hash nodes) that are too large, and merges small ones, step by step as `compact_table` does."""
    return _perform_compaction(session, partial(plan_split, session))


def compact_table(
    session: TableSession,
    mode: CompactionMode,
    tell: Callable[[str], None] = lambda _: None,
    most_bytes: float = math.inf,
) -> Compacted:
    """Compacts a table in steps, each with a commit of its own; performed steps stay if a later one fails.

    Each step is planned from the table's state just before it, and is planned again if another writer commits
    meanwhile. `tell` is called with a line for people when a step begins, and after each part of a step. A step is not
    begun if the total of rewritten bytes would exceed `most_bytes`. Raises CommitConflict if other writers were faster
    too often, and ConfigError if there is no table yet.
    """
    return _perform_compaction(session, partial(plan_compaction, session, mode), tell, most_bytes)


def _perform_compaction(
    session: TableSession, planned: Planner, tell: Callable[[str], None] = lambda _: None, most_bytes: float = math.inf
) -> Compacted:
    performed: list[CompactionStep] = []
    lost, thresholds = 0, session.reader.thresholds.compaction
    while True:
        try:
            state, step = _next_step(session, planned, performed)
            if step is None or sum(step_done.bytes for step_done in (*performed, step)) > most_bytes:
                return Compacted(tuple(performed), planned(())[1], step)
            tell(describe_compaction(step))
            _perform_step(step, session, state, tell)
        except CommitConflict as conflict:
            lost += 1
            if lost == thresholds.conflicts:
                raise CommitConflict(
                    f"{session.model.table}: gave up after {lost} commit conflicts: other writers committed "
                    "while files were rewritten.\n"
                    f"  already committed: {len(performed)} step(s)",
                    fix="run `arctic compact` again when fewer runs write to the table",
                ) from conflict
            time.sleep(thresholds.conflict_wait_seconds)
        else:
            performed.append(step)


def _next_step(
    session: TableSession, planned: Planner, performed: Sequence[CompactionStep]
) -> tuple[TableState, CompactionStep | None]:
    """Updates the base table and the view, then returns the table's state and the next step; None if there is none.

    File groups that the `performed` steps rewrote are not planned again.
    """
    state = session.reconcile_until_done(session.observe_state())
    for stale in plan_branch_cleanup(session.model, state, session.now, session.reader.thresholds.expiry):
        perform_step(stale, session.build_context(state))
    state, plan = planned(list_rewritten_groups(performed))
    has_merged = any(isinstance(step, MergeUnmerged | RewriteBase) for step in performed)
    return state, next(
        (step for step in plan.steps if isinstance(step, RewriteFiles | ResizeBuckets) or not has_merged), None
    )


def _perform_step(step: CompactionStep, session: TableSession, state: TableState, tell: Callable[[str], None]) -> None:
    match step:
        case MergeUnmerged():
            session.reconcile_until_done(state, fold=True)
        case RewriteBase():
            perform_step(step, replace(session.build_context(state), tell=tell))
            session.reconcile_until_done(session.observe_state())
        case RewriteFiles() | ResizeBuckets():
            perform_step(step, session.build_context(state))
        case _:
            assert_never(step)
