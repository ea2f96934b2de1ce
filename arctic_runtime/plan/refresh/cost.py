"""Estimates the cost of a refresh of a table, by an incremental run and by a full computation.

A first estimate is computed from the numbers of rows and scans. It is multiplied by a correction from earlier runs of
the same model: the seconds that they took, divided by the seconds that were estimated for them. The correction accounts
for the machine, and for queries that need more or less time per row than others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from arctic_runtime.ivm.algebra.tree import Scan
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Window
from arctic_runtime.thresholds import SHIPPED, CostThresholds

Way = Literal["incremental", "full"]


@dataclass(frozen=True)
class Past:
    """A past run of a model: the `seconds` that it took, and the seconds that were `estimated` for it."""

    way: Way
    seconds: float
    estimated: float

    def compute_correction(self, prices: CostThresholds) -> float:
        """Divides the measured seconds by the estimated ones; at most `correction_limit`, at least its inverse."""
        limit = prices.correction_limit
        return min(limit, max(1 / limit, self.seconds / max(self.estimated, prices.scan_seconds)))


@dataclass(frozen=True)
class RunHistory:
    """Known past runs of a table, the newest last, and the current row count of the table.

    `was_tried` is True if a run has begun an incremental refresh, even if it then fell back to a full one, which leaves
    no measured seconds of an incremental run.
    """

    table_rows: int = 0
    runs: Sequence[Past] = ()
    was_tried: bool = False


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of one mode of a run."""

    way: Way
    """The mode, incremental or full."""

    scans: int
    """Number of table scans."""

    rows: int
    """Number of rows read."""

    seconds: float = 0.0
    """Estimated seconds, corrected by what earlier runs took."""

    changes: int = 0
    """Number of change rows read, each counted once."""

    repeated: int = 0
    """Number of change rows in further reads of the same change rows."""

    merged: int = 0
    """Number of change rows from windows with several commits, which must be combined by key."""

    unadjusted: float = 0.0
    """Estimated seconds without the correction."""

    def describe_cost(self) -> str:
        """Describes the numbers of rows and scans and the seconds, in one line for users."""
        return f"{self.rows:,} rows by {self.scans} scan(s), about {self.seconds:.1f} s"

    def explain_cost(self) -> str:
        """Describes the mode and its estimated cost, in one line for users."""
        return f"{_PURPOSES[self.way]}: {self.describe_cost()}"


_PURPOSES: Mapping[Way, str] = {"incremental": "to follow the changes", "full": "to compute everything"}


def estimate_modes(
    states: Mapping[str, SourceState | None],
    windows: Mapping[str, Window],
    followed: Iterable[Scan] | None,
    history: RunHistory,
    prices: CostThresholds = SHIPPED.cost,
    slices: Iterable[Scan] = (),
) -> tuple[Estimate, ...]:
    """Estimates the cost of each possible mode of a run, the cheapest first.

    `states` are the states of the sources, and `windows` the windows of versions that the run reads, both by source
    name. `followed` are the scans of the incremental plan; None if there is no such plan. `slices` are those of them
    that read only rows between two times. `history` has the earlier
    runs by which estimates are corrected.
    """
    ways = [_estimate_full(states, history.table_rows)]
    if followed is not None:
        spared = sum(state.rows for scan in slices if (state := states[str(scan.source)]))
        incremental = _estimate_incremental(followed, states, windows)
        ways.append(replace(incremental, rows=incremental.rows - round(spared * (1 - prices.slice_share))))
    factors = _compute_correction_factors(history.runs, prices)
    priced = (replace(way, unadjusted=_estimate_seconds(way, prices)) for way in ways)
    return tuple(sorted((_calibrate_estimate(way, factors) for way in priced), key=lambda way: way.seconds))


def _estimate_seconds(way: Estimate, prices: CostThresholds) -> float:
    """Estimates the seconds of a run from its rows and scans, without a correction by earlier runs."""
    row_seconds = prices.full_row_seconds if way.way == "full" else prices.incremental_row_seconds
    of_changes = (
        way.changes * prices.change_row_seconds
        + way.repeated * prices.repeated_change_row_seconds
        + way.merged * prices.merged_change_row_seconds
    )
    return prices.run_seconds + way.scans * prices.scan_seconds + way.rows * row_seconds + of_changes


def _estimate_full(states: Mapping[str, SourceState | None], table_rows: int) -> Estimate:
    """Estimates a full run, which reads each source once and compares the result with the table's `table_rows` rows."""
    source_rows = [state.rows for state in states.values() if state]
    return Estimate("full", len(source_rows) + 1, sum(source_rows) + table_rows)


def _estimate_incremental(
    followed: Iterable[Scan], states: Mapping[str, SourceState | None], windows: Mapping[str, Window]
) -> Estimate:
    scans = rows = repeated = 0
    changes: dict[TableName, int] = {}
    merged: dict[TableName, int] = {}
    for scan in followed:
        state, window = states[str(scan.source)], windows[str(scan.source)]
        assert state is not None
        changed = scan.reads_changes * state.count_rows_in(window)
        scans += scan.reads_changes + scan.reads_rows
        rows += changed + scan.reads_rows * state.rows
        if scan.reads_changes:
            repeated += changed if scan.source in changes else 0
            changes[scan.source] = changed
            if state.kind == "changes" and state.count_commits_in(window) > 1:
                merged[scan.source] = changed
    first, several = sum(changes.values()), sum(merged.values())
    return Estimate("incremental", scans, rows, changes=first, repeated=repeated, merged=several)


def _calibrate_estimate(way: Estimate, factors: Mapping[Way, float]) -> Estimate:
    """Multiplies the unadjusted seconds of an estimate by the correction factor of its mode.

    A mode without past runs has the smallest factor of the other modes, but at most 1.
    """
    factor = factors.get(way.way, min(1.0, *factors.values()) if factors else 1.0)
    return replace(way, seconds=round(way.unadjusted * factor, 3))


def _compute_correction_factors(runs: Sequence[Past], prices: CostThresholds) -> dict[Way, float]:
    """Computes the correction factor of each mode from the last two runs in that mode.

    The factor is the smaller correction of the two, because one of the runs may have been slow by chance. It is
    multiplied by `correction_decay` for each later run in the other mode.
    """
    factors: dict[Way, float] = {}
    for way in {run.way for run in runs}:
        places = [place for place, run in enumerate(runs) if run.way == way]
        faded = prices.correction_decay ** (len(runs) - 1 - places[-1])
        factors[way] = min(runs[place].compute_correction(prices) for place in places[-2:]) * faded
    return factors


def list_past_errors(runs: Sequence[Past], prices: CostThresholds = SHIPPED.cost) -> list[float]:
    """Lists the relative errors of the estimates of past runs, oldest first, each corrected as it was before its run.

    The error of a run is the difference of the estimated and the measured seconds, divided by the measured ones. The
    first run of a mode, whose estimate no run of that mode had corrected, is left out.
    """
    errors = []
    for place, run in enumerate(runs):
        factors = _compute_correction_factors(runs[:place], prices)
        if run.way in factors and run.seconds > 0:
            errors.append(abs(run.estimated * factors[run.way] - run.seconds) / run.seconds)
    return errors
