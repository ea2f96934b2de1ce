"""Freshness and rows of a table over the last days, as HTTP and the page show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from arctic_runtime.catalog.table_samples import TableSample
from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class TableTrend:
    """Samples of a table, oldest first: the lists have an item for each sample."""

    table: TableName
    at: tuple[datetime, ...]
    rows: tuple[int, ...]
    stale_seconds: tuple[float | None, ...]
    """Seconds since the time as of which the table showed its sources; None if that was not known."""

    states: tuple[str, ...]


def build_table_trend(table: TableName, samples: Sequence[TableSample]) -> TableTrend:
    """Builds the trend of a table from its samples."""
    return TableTrend(
        table,
        tuple(sample.sampled_at for sample in samples),
        tuple(sample.rows for sample in samples),
        tuple(sample.stale_seconds for sample in samples),
        tuple(sample.state for sample in samples),
    )
