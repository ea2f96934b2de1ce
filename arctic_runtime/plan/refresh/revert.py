"""Plans how a table returns to a version of its own, if the model's query is again the one that made this version.

The rows of that version are those of the query at the offsets that its commit names. A run takes back what the change
table has published since then. Changes of the sources since these offsets are followed after that, by the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.model.properties import FORWARD_EDIT, FROZEN, MODE, OFFSETS, QUERY, REASON
from arctic_runtime.model.run_summary import SCHEMA_ONLY, UNFROZEN, RunSummary, get_offsets, run_commits
from arctic_runtime.model.state import Commit, SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh.edits import EditPlan
from arctic_runtime.plan.refresh.fingerprint import describe_query_change
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.window_rows import check_window, has_before_images
from arctic_runtime.thresholds import IncrementalThresholds


@dataclass(frozen=True)
class RevertPlan:
    """The return of a table to a version that the same query made, as a run performs it."""

    commit: Commit
    """The commit of the change table with that version."""

    own: Window
    """The window of the table's own versions whose changes are taken back."""

    rows: int
    """Number of change rows in this window."""

    windows: Mapping[str, Window]
    """The version of each source that the rows follow from, as the start and the end of a window."""

    @cached_property
    def run(self) -> RunSummary:
        """The record of the run that made the version."""
        return RunSummary.decode(self.commit.summary)

    @property
    def because(self) -> str:
        at = datetime.fromtimestamp(self.commit.at_ms / 1000, timezone.utc)
        version = self.commit.version.snapshot
        return f"the query is again that of version {version} of {at:%Y-%m-%d %H:%M} UTC"

    def describe_plan(self) -> tuple[str, ...]:
        """Describes for users in a few lines what the run reads for the return, and what it does then."""
        since = f"takes back {self.rows:,} change rows of the table since version {self.commit.version.snapshot}"
        return (since, "then follows the changes of what the query reads since that version")


def plan_revert(
    model: Model, state: TableState, upstreams: Upstreams, is_same_session: Callable[[RunSummary], bool]
) -> RevertPlan | None:
    """Plans the return of a table to the newest version that the model's present query made; None if it can't.

    `is_same_session` says of a run whether its session has computed as the present one does. A table with `history`
    does not return: its earlier versions of rows are a record of what it has shown. Nor does one return to a version
    that had rows of other queries too.
    """
    changes, own = state.changes, upstreams.own
    if changes is None or state.base is None or own is None or model.config.has_history:
        return None
    known = {commit.summary.get(QUERY) for commit in run_commits(changes)}
    same = {query for query in known if not describe_query_change(model, state, upstreams, query)}
    for commit in reversed(run_commits(changes)):
        summary = commit.summary
        is_load = OFFSETS in summary and summary.get(MODE) != SCHEMA_ONLY and FORWARD_EDIT not in summary
        if is_load and summary.get(QUERY) in same and is_same_session(RunSummary.decode(summary)):
            return _plan_return(state, upstreams, own, commit)
        if summary.get(REASON) == "FORGOTTEN" or summary.get(FROZEN) == UNFROZEN:
            return None
    return None


def _plan_return(state: TableState, upstreams: Upstreams, own: SourceState, commit: Commit) -> RevertPlan | None:
    """Plans the return to the version of `commit`.

    None if the change rows since then are not kept with the rows before them, or if a column of that time was dropped
    or renamed.
    """
    assert state.changes is not None
    window = Window(str(own.name), commit.version, own.version)
    if commit.version.snapshot in {*state.changes.dropped_columns, *state.changes.old_column_names}:
        return None
    try:
        check_window(own, window)
    except NotMaintained:
        return None
    if not has_before_images(own, window):
        return None
    offsets = get_offsets(RunSummary.decode(commit.summary))
    states = {name: source for name, source in upstreams.states.items() if source is not None}
    versions = {name: offsets.get(name, source.version) for name, source in states.items()}
    windows = {name: Window(name, version, version) for name, version in versions.items()}
    return RevertPlan(commit, window, own.count_rows_in(window), windows)


def rewind_state(state: TableState, revert: RevertPlan) -> TableState:
    """Returns the state that the table has after its return to the version of `revert`."""
    assert state.changes is not None
    last = revert.commit.version.sequence
    kept = tuple(commit for commit in state.changes.commits if commit.version.sequence <= last)
    return replace(state, changes=replace(state.changes, commits=kept))


def is_cheaper(
    revert: RevertPlan,
    edit: EditPlan | None,
    upstreams: Upstreams,
    state: TableState,
    limits: IncrementalThresholds,
) -> bool:
    """Whether the return reads at most as many rows as the edit of the query, or as a full computation without one."""
    own = state.base.rows if state.base else 0
    sources = {source.name: source.rows for source in upstreams.states.values() if source is not None}
    if edit is None:
        other = max(own + sum(sources.values()), limits.always_incremental_rows)
    else:
        read = sum(sources.get(name, 0) for name in edit.edit.sources) + own * edit.edit.reads_table
        other = (read if edit.edit.rows is not None else 0) + _count_rows_since(edit.windows, upstreams)
    return revert.rows + _count_rows_since(revert.windows, upstreams) <= other


def _count_rows_since(windows: Mapping[str, Window], upstreams: Upstreams) -> int:
    """Number of rows that the sources have added since the versions at which `windows` end."""
    return sum(
        source.count_rows_in(Window(name, windows[name].end, source.version))
        for name, source in upstreams.states.items()
        if source is not None
    )
