"""Estimates the bytes and rows that one run of a model reads and writes, from stored sizes of its tables.

A run reads the sources of its query, then the stored rows with which it compares the result, and in the end the change
rows that it has written, to merge them into the base table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arctic_runtime.ivm.algebra.tree import Scan, list_scans
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState
from arctic_runtime.ivm.strategies.maintain import AffectedKeys
from arctic_runtime.model.columns import strip_change_columns
from arctic_runtime.model.files.file_sizes import FileSizes
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.preview.preview import PreviewWay, RunCost
from arctic_runtime.plan.preview.table_sizes import (
    TableSizes,
    compute_row_bytes,
    compute_scan_bytes,
    compute_window_bytes,
)
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.reconcile import is_overwritten
from arctic_runtime.thresholds import SHIPPED, Thresholds

OWN_RESULT_REASONS: frozenset[str] = frozenset({"EDITED"})
"""Reasons for which a run computes the new rows from the table's own rows, and reads no source."""


def classify_way(decision: Decision) -> PreviewWay:
    """Returns the way of a run from the decision on it."""
    if decision.leaves_rows:
        return "nothing"
    if decision.reason in OWN_RESULT_REASONS:
        return "own result"
    return "incremental" if decision.mode == "incremental" else "full"


@dataclass(frozen=True)
class RunTables:
    """Observed states and sizes of the tables of a run.

    `sizes` has those of the sources by name, `own` those of the model's own table. `scans` are the scans of the whole
    query; None if it can't be analysed, so that all columns of all sources count as read. `new_row_bytes` are the
    estimated bytes of a row of a table without files, and `images` the rows that a change row has.
    """

    state: TableState
    sources: Mapping[str, SourceState]
    sizes: Mapping[str, TableSizes]
    own: TableSizes = field(default_factory=TableSizes)
    scans: Sequence[Scan] | None = None
    new_row_bytes: float = 0.0
    images: float = SHIPPED.preview.change_row_images

    @property
    def row_bytes(self) -> float:
        return self.own.rows.estimate_row_bytes() or self.new_row_bytes

    @property
    def change_row_bytes(self) -> float:
        return self.own.estimate_change_bytes(self.state.log, self.new_row_bytes, self.images)


def estimate_run_cost(
    model: Model, decision: Decision, tables: RunTables, written_rows: float, thresholds: Thresholds
) -> RunCost:
    """Estimates the cost of a run that publishes `written_rows` change rows, as `decision` says."""
    if decision.leaves_rows:
        return RunCost()
    read = _estimate_query_bytes(decision, tables) + _estimate_compared_bytes(
        decision, tables, written_rows, thresholds
    )
    is_first = decision.mode == "create"
    change_bytes = written_rows * (tables.row_bytes if is_first else tables.change_row_bytes)
    merged_read, merged_written = _estimate_merge(model, tables, written_rows, change_bytes, thresholds)
    estimate = decision.estimate
    return RunCost(
        thresholds.preview.run_bytes + read + merged_read,
        change_bytes + merged_written,
        _count_rows_read(decision, tables),
        written_rows,
        estimate.seconds if estimate is not None else 0.0,
    )


def _estimate_query_bytes(decision: Decision, tables: RunTables) -> float:
    """Estimates the bytes of the sources that the query reads: only changes and lookups, or all rows."""
    if decision.reason in OWN_RESULT_REASONS:
        return 0.0
    scans = _list_decided_scans(decision, tables)
    if scans is not None:
        return sum(_compute_bytes(scan, decision, tables) for scan in scans)
    return sum(_estimate_source_bytes(name, decision, tables) for name in tables.sources)


def _list_decided_scans(decision: Decision, tables: RunTables) -> Sequence[Scan] | None:
    increment = decision.increment
    if increment is None:
        return tables.scans
    if isinstance(increment.maintenance, AggregateState) and tables.state.aggregate_state is None:
        return [*list_scans(increment.maintenance.state), *list_scans(increment.maintenance.result)]
    return increment.change_scans


def _compute_bytes(scan: Scan, decision: Decision, tables: RunTables) -> float:
    name = str(scan.source)
    source = tables.sources.get(name)
    if source is None:
        return 0.0
    return compute_scan_bytes(scan, tables.sizes[name], source, _find_window(name, source, decision))


def _find_window(name: str, source: SourceState, decision: Decision) -> Window:
    return decision.windows.get(name) or Window(name, None, source.version)


def _estimate_source_bytes(name: str, decision: Decision, tables: RunTables) -> float:
    """Estimates the bytes of a source whose read columns are not known: of its events in the window, or of all rows."""
    source, sizes = tables.sources[name], tables.sizes[name]
    columns = [column.name for column in strip_change_columns(source.columns)]
    if decision.ways:
        return compute_row_bytes(columns, sizes, source)
    return compute_window_bytes(columns, sizes, source, _find_window(name, source, decision))


def _estimate_compared_bytes(
    decision: Decision, tables: RunTables, written_rows: float, thresholds: Thresholds
) -> float:
    """Estimates the bytes of stored rows with which the result is compared; deltas need none."""
    if decision.mode == "create":
        return 0.0
    increment = decision.increment
    if increment is None and (decision.mode == "full" or decision.reason in OWN_RESULT_REASONS):
        return tables.own.rows.bytes
    if increment is None or isinstance(increment.maintenance, AffectedKeys):
        return tables.own.rows.bytes * _estimate_share(tables.own.rows, written_rows, thresholds)
    return 0.0


def _estimate_share(files: FileSizes, keys: float, thresholds: Thresholds) -> float:
    """Estimates the share of a table's files in which some of `keys` keys are, if these are spread over all files.

    A small table is read whole.
    """
    if not files.files or files.rows <= thresholds.pruning.scanned_table_rows:
        return 1.0
    return 1.0 - float((1.0 - 1.0 / files.files) ** keys)


def _estimate_merge(
    model: Model, tables: RunTables, written_rows: float, change_bytes: float, thresholds: Thresholds
) -> tuple[float, float]:
    """Estimates the bytes that a merge of the change rows into the base table reads, and those that it writes."""
    base = tables.state.base
    if model.is_appended or not written_rows:
        return 0.0, 0.0
    if base is None:
        return change_bytes, written_rows * tables.row_bytes
    if model.config.merge == "on_read" and written_rows <= thresholds.merge.unmerged_share * base.rows:
        return 0.0, 0.0
    own = tables.own.rows
    if is_overwritten(model, base, thresholds.merge):
        return change_bytes + own.bytes, max(own.bytes, written_rows * tables.row_bytes)
    keys = own.sum_bytes(model.config.primary_key) * _estimate_share(own, written_rows, thresholds)
    # Few rows of a change table, which are scattered over the table, take more bytes each than all rows do.
    is_scattered = written_rows <= thresholds.base_rewrite.changed_share * base.rows
    scattered = change_bytes * thresholds.preview.changed_row_share if is_scattered else 0.0
    # Change rows are read for the keys that they replace, and again for the rows that replace them.
    return 2 * change_bytes + keys, max(written_rows * tables.row_bytes, scattered)


def _count_rows_read(decision: Decision, tables: RunTables) -> float:
    """Number of rows that the run reads, as the planner estimates them."""
    if decision.reason in OWN_RESULT_REASONS:
        return tables.own.rows.rows
    if decision.estimate is not None:
        return decision.estimate.rows
    windows = decision.windows
    return sum(source.count_rows_in(windows[name]) for name, source in tables.sources.items() if name in windows)
