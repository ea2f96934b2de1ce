"""Cost of bringing a table up to date: by following what changed, or by computing everything.

A first estimate comes from what is read; how long earlier runs of the same model took, against what was estimated for
them, puts it right for the machine, and for queries whose rows are more or less work than others.
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
    """A run that is over: the seconds that it took, and those that were estimated from what it read."""

    way: Way
    seconds: float
    estimated: float

    def compute_correction(self, prices: CostThresholds) -> float:
        """The measured seconds as a multiple of the estimated ones, within `correction_limit`."""
        limit = prices.correction_limit
        return min(limit, max(1 / limit, self.seconds / max(self.estimated, prices.scan_seconds)))


@dataclass(frozen=True)
class RunHistory:
    """The runs of a table that are known, the newest last, and the rows that the table has now.

    `was_tried`: a run has set out to follow changes, perhaps one that gave it up and tells no seconds.
    """

    table_rows: int = 0
    runs: Sequence[Past] = ()
    was_tried: bool = False


@dataclass(frozen=True)
class Estimate:
    """One way for one run: `rows` are read by `scans`, and `seconds` is what that takes, put right by earlier runs.

    `changes` of the rows are change rows, and `repeated` those read more than once; `merged` are change rows of several
    commits, which are brought together by their keys. `unadjusted` are the seconds as they follow from these alone.
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
        """Rows read and their time, for people."""
        return f"{self.rows:,} rows by {self.scans} scan(s), about {self.seconds:.1f} s"

    def explain_cost(self) -> str:
        """The same, and what it is done for."""
        return f"{_PURPOSES[self.way]}: {self.describe_cost()}"


_PURPOSES: Mapping[Way, str] = {"incremental": "to follow the changes", "full": "to compute everything"}


def estimate_modes(
    states: Mapping[str, SourceState | None],
    windows: Mapping[str, Window],
    followed: Iterable[Scan] | None,
    history: RunHistory,
    prices: CostThresholds = SHIPPED.cost,
) -> tuple[Estimate, ...]:
    """The ways there are, the cheapest first.

    `followed` are the scans of an incremental plan, None if there is none.
    """
    ways = [_estimate_full(states, history.table_rows)]
    if followed is not None:
        ways.append(_estimate_incremental(followed, states, windows))
    factors = _compute_correction_factors(history.runs, prices)
    priced = (replace(way, unadjusted=_estimate_seconds(way, prices)) for way in ways)
    return tuple(sorted((_calibrate_estimate(way, factors) for way in priced), key=lambda way: way.seconds))


def _estimate_seconds(way: Estimate, prices: CostThresholds) -> float:
    """The seconds that follow from rows and scans alone."""
    row_seconds = prices.full_row_seconds if way.way == "full" else prices.incremental_row_seconds
    of_changes = (
        way.changes * prices.change_row_seconds
        + way.repeated * prices.repeated_change_row_seconds
        + way.merged * prices.merged_change_row_seconds
    )
    return prices.run_seconds + way.scans * prices.scan_seconds + way.rows * row_seconds + of_changes


def _estimate_full(states: Mapping[str, SourceState | None], table_rows: int) -> Estimate:
    """Each source once, and the table itself, which what is computed is compared with."""
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
    """A way that was never gone is taken to be no worse than estimated, and as fast as the other where that is less."""
    factor = factors.get(way.way, min(1.0, *factors.values()) if factors else 1.0)
    return replace(way, seconds=round(way.unadjusted * factor, 3))


def _compute_correction_factors(runs: Sequence[Past], prices: CostThresholds) -> dict[Way, float]:
    """By how much the better of the last two runs of each way was off: one may have been slow for what passes.

    It is less the more runs since have gone the other way.
    """
    factors: dict[Way, float] = {}
    for way in {run.way for run in runs}:
        places = [place for place, run in enumerate(runs) if run.way == way]
        faded = prices.correction_decay ** (len(runs) - 1 - places[-1])
        factors[way] = min(runs[place].compute_correction(prices) for place in places[-2:]) * faded
    return factors
