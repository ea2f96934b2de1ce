"""Estimates the cost of bringing a table up to date, incrementally or by a full computation.

A first estimate follows from the rows and scans that are read. It is corrected by earlier runs of the same model, from
the seconds that they took and the seconds that were estimated. This accounts for the machine, and for queries whose
rows are more or less work than others.
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
    """A past run of a model: the `seconds` that it took, and the seconds that were `estimated` before."""

    way: Way
    seconds: float
    estimated: float

    def compute_correction(self, prices: CostThresholds) -> float:
        """The measured seconds divided by the estimated ones; at most `correction_limit`, at least its inverse."""
        limit = prices.correction_limit
        return min(limit, max(1 / limit, self.seconds / max(self.estimated, prices.scan_seconds)))


@dataclass(frozen=True)
class RunHistory:
    """The known past runs of a table, the newest last, and the number of rows that the table has now.

    `was_tried` is True if a run has begun an incremental refresh, even if it gave up and left no measured seconds.
    """

    table_rows: int = 0
    runs: Sequence[Past] = ()
    was_tried: bool = False


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of one mode of a run: the `rows` and number of `scans` that it reads, and the `seconds`.

    `changes` is the number of change rows among `rows`, and `repeated` the number of those that are read more than
    once. `merged` is the number of change rows that come from several commits and are combined by key. The `seconds`
    are corrected by earlier runs, `unadjusted` are not.
    """

    way: Way
    scans: int
    rows: int
    seconds: float = 0.0
    changes: int = 0
    repeated: int = 0
    merged: int = 0

    unadjusted: float = 0.0

    def describe_cost(self) -> str:
        """Describes the number of rows and scans and the seconds, in a line for people."""
        return f"{self.rows:,} rows by {self.scans} scan(s), about {self.seconds:.1f} s"

    def explain_cost(self) -> str:
        """Describes what the mode would do and what it would cost, in a line for people."""
        return f"{_PURPOSES[self.way]}: {self.describe_cost()}"


_PURPOSES: Mapping[Way, str] = {"incremental": "to follow the changes", "full": "to compute everything"}


def estimate_modes(
    states: Mapping[str, SourceState | None],
    windows: Mapping[str, Window],
    followed: Iterable[Scan] | None,
    history: RunHistory,
    prices: CostThresholds = SHIPPED.cost,
) -> tuple[Estimate, ...]:
    """Estimates the cost of each possible mode of a run, the cheapest first.

    `states` are the sources, and `windows` the versions of them that the run reads. `followed` are the scans of the
    incremental plan; None if there is no such plan. `history` has earlier runs, which correct the estimates.
    """
    ways = [_estimate_full(states, history.table_rows)]
    if followed is not None:
        ways.append(_estimate_incremental(followed, states, windows))
    factors = _compute_correction_factors(history.runs, prices)
    priced = (replace(way, unadjusted=_estimate_seconds(way, prices)) for way in ways)
    return tuple(sorted((_calibrate_estimate(way, factors) for way in priced), key=lambda way: way.seconds))


def _estimate_seconds(way: Estimate, prices: CostThresholds) -> float:
    """Estimates the seconds of a run from its rows and scans alone, without a correction by earlier runs."""
    row_seconds = prices.full_row_seconds if way.way == "full" else prices.incremental_row_seconds
    of_changes = (
        way.changes * prices.change_row_seconds
        + way.repeated * prices.repeated_change_row_seconds
        + way.merged * prices.merged_change_row_seconds
    )
    return prices.run_seconds + way.scans * prices.scan_seconds + way.rows * row_seconds + of_changes


def _estimate_full(states: Mapping[str, SourceState | None], table_rows: int) -> Estimate:
    """Estimates a full run: it reads each source once, and the `table_rows` rows of the table to compare them."""
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
    """Computes the correction factor of each mode from its last two runs.

    It is the smaller of their two corrections, since one of the runs may have been slow by chance. It is multiplied by
    `correction_decay` for each later run of the other mode.
    """
    factors: dict[Way, float] = {}
    for way in {run.way for run in runs}:
        places = [place for place, run in enumerate(runs) if run.way == way]
        faded = prices.correction_decay ** (len(runs) - 1 - places[-1])
        factors[way] = min(runs[place].compute_correction(prices) for place in places[-2:]) * faded
    return factors
