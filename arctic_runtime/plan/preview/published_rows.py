"""Estimates how many change rows a run will publish, from past runs of the same model."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from arctic_runtime.model.properties import MODE, REASON
from arctic_runtime.model.run_summary import RunSummary, get_offsets, run_commits
from arctic_runtime.model.state import Commit, SourceState, TableState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.preview.amount import Amount
from arctic_runtime.plan.refresh.decide import Decision


def estimate_published_rows(
    decision: Decision, state: TableState, sources: Mapping[str, SourceState], changed: Amount, new_rows: Amount
) -> Amount:
    """Estimates the number of change rows of a run whose `changed` change rows of its sources it has not read.

    A first run publishes its rows, of which there are `new_rows`. A run that computes everything anew because of an
    edit publishes the share of the table's rows that such runs have published before, or else at most all. Any other
    run publishes for each change row that it reads what past incremental runs have published for one.
    """
    rows = state.base.rows if state.base is not None else 0
    if decision.leaves_rows:
        return Amount()
    if decision.mode == "create":
        return new_rows
    if decision.reason in FROM_EDIT:
        past = [commit.rows for commit in _list_past_runs(state, decision.reason)]
        expected = statistics.median(past) if past else rows
        return Amount.from_estimates(min(expected, rows), (min([*past, 0]), rows))
    ratios = list(_list_ratios(state, sources))
    if ratios:
        scaled = changed.scale_by(min(ratios), statistics.median(ratios), max(ratios))
    else:
        scaled = changed.scale_by(0.0, _guess_ratio(rows, sources.values()), 1.0)
    return scaled.limit_to(max(rows, changed.high))


FROM_EDIT = frozenset({"QUERY_CHANGED", "EDITED", "FULL_REFRESH"})
"""Reasons for which a run may change any row, whatever has changed in its sources."""


def _list_past_runs(state: TableState, reason: str) -> Iterator[Commit]:
    """Yields the commits of past runs with a reason, and of runs for which it would have been the same work."""
    for commit in run_commits(state.log):
        if commit.summary.get(REASON) == reason:
            yield commit


def _list_ratios(state: TableState, sources: Mapping[str, SourceState]) -> Iterator[float]:
    """Yields, for each known past incremental run, its change rows divided by the change rows that it has read."""
    before: Mapping[str, Version] = {}
    for commit in run_commits(state.log):
        offsets = get_offsets(RunSummary.decode(commit.summary))
        if commit.summary.get(MODE) == "incremental":
            read = sum(
                sources[name].count_rows_in(Window(name, before[name], end))
                for name, end in offsets.items()
                if name in before and name in sources and sources[name].keeps_version(before[name])
            )
            if read:
                yield commit.rows / read
        before = offsets


def _guess_ratio(rows: int, sources: Iterable[SourceState]) -> float:
    """Guesses change rows per change row read from the numbers of rows: at most 1, and fewer for groups of rows."""
    most = max((source.rows for source in sources), default=0)
    return min(1.0, rows / most) if most else 1.0


def add_changes(source: SourceState, rows: int, row_bytes: float) -> SourceState:
    """Returns the state of a source after another commit with `rows` change rows, of `row_bytes` bytes each."""
    last = source.commits[-1].version if source.commits else source.version
    version = Version(source.version.table, 0, last.sequence + 1)  # Iceberg's ids of snapshots are larger.
    commit = Commit(version, last.snapshot, "append", rows, round(rows * row_bytes), {}, 0)
    return replace(source, version=version, commits=(*source.commits, commit))
