"""Estimates the rows of a table that no run has made yet, and their stored bytes, from the sources of its query."""

from __future__ import annotations

import math
from collections.abc import Mapping

from arctic_runtime.ivm.algebra.tree import Node, Projection, Scan, walk_tree
from arctic_runtime.ivm.frontend.analyse import Analysed
from arctic_runtime.ivm.rewrite.scan_limits import find_group_columns
from arctic_runtime.ivm.rewrite.statistics import SourceStatistics, Statistics
from arctic_runtime.model.columns import strip_change_columns
from arctic_runtime.model.state import SourceState
from arctic_runtime.plan.preview.amount import Amount
from arctic_runtime.plan.preview.table_sizes import TableSizes


def estimate_new_rows(
    analysed: Analysed | None, sources: Mapping[str, SourceState], sizes: Mapping[str, TableSizes]
) -> Amount:
    """Estimates the rows of the result of a query, from none to all rows that pass its joins.

    The share of rows that a filter keeps is not known, and the number of groups is guessed from the stored bytes of the
    columns that they are made of. It is exact if the query has only projections. Without an analysis, or with a join of
    unknown size, the estimate is the rows of the largest source.
    """
    most = max((source.rows for source in sources.values()), default=0)
    if analysed is None:
        return Amount(0, most, most)
    rows = _collect_statistics(sources).estimate_rows(analysed.tree)
    high = most if math.isinf(rows) else rows
    if all(isinstance(node, Scan | Projection) for node in walk_tree(analysed.tree)):
        return Amount(high, high, high)
    return Amount(0, min(high, _guess_groups(analysed.tree, sources, sizes)), high)


def _guess_groups(tree: Node, sources: Mapping[str, SourceState], sizes: Mapping[str, TableSizes]) -> float:
    """Guesses the number of groups of the last grouping of a query; infinity if it does not end with one.

    Those of several sources are multiplied. A source has at most as many as rows.
    """
    below, columns = find_group_columns(tree)
    if not columns:
        return math.inf
    statistics = _collect_statistics(sources)
    values: dict[str, float] = {}
    for column in columns:
        origin = statistics.find_origin(below, column)
        if origin is None:
            return math.inf
        name, field = str(origin[0]), origin[1]
        is_key = sources[name].key == (field,)
        count = sources[name].rows if is_key else sizes[name].guess_distinct_values(field)
        values[name] = values.get(name, 1.0) * count
    return math.prod(min(count, sources[name].rows) for name, count in values.items())


def estimate_new_row_bytes(
    analysed: Analysed | None, sources: Mapping[str, SourceState], sizes: Mapping[str, TableSizes]
) -> float:
    """Estimates the stored bytes of a row of the result of a query.

    A column of a source counts as in the files of the source, and one that is computed as a mean value of all sources.
    Without an analysis a row counts as one of the source with the longest rows.
    """
    if analysed is None:
        return max((files.rows.estimate_row_bytes() or 0.0 for files in sizes.values()), default=0.0)
    statistics, mean = _collect_statistics(sources), _estimate_value_bytes(sources, sizes)
    origins = [statistics.find_origin(analysed.tree, own) for _, own in analysed.outputs]
    known = [None if origin is None else sizes[str(origin[0])].estimate_value_bytes(origin[1]) for origin in origins]
    return sum(mean if size is None else size for size in known)


def _estimate_value_bytes(sources: Mapping[str, SourceState], sizes: Mapping[str, TableSizes]) -> float:
    """Mean stored bytes of a value, one column of one row, of all sources."""
    values = sum(sizes[name].rows.rows * len(strip_change_columns(state.columns)) for name, state in sources.items())
    return sum(sizes[name].rows.bytes for name in sources) / values if values else 0.0


def _collect_statistics(sources: Mapping[str, SourceState]) -> Statistics:
    return Statistics({source.name: SourceStatistics(source.rows, 0, 0.0) for source in sources.values()})
