"""Bounds of column values, by which Spark skips files: value ranges or IN-lists, collected in one Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.columns import BEFORE, is_same_name
from arctic_runtime.model.files.bounds import Bound, build_bounds_condition, is_bounded
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, quote_name, write_expression
from arctic_runtime.spark.tables.rows.frames import Keys, as_key
from arctic_runtime.thresholds import PruningThresholds

EVERYWHERE, NOWHERE = Sql("true"), Sql("false")


@dataclass(frozen=True)
class Ranges:
    """Computes, by aggregates, the range of values of each column over the rows of a query that meet `among`.

    `among` is a SQL condition. `values` has the columns by name, each as a SQL expression with its type.
    """

    values: Mapping[str, tuple[Sql, str]]
    among: Sql = EVERYWHERE

    def build_aggregates(self) -> list[Sql]:
        """Builds the aggregates to compute over the query's rows; `read_bounds` converts their values to bounds."""
        aggregates = [count_where(self.among, _ROWS)]
        for place, (value, kind) in enumerate(self.values.values()):
            one = {"among": self.among, "value": value}
            least = fill_statement("min(CASE WHEN {among} THEN {value} END)", **one)
            greatest = fill_statement("max(CASE WHEN {among} THEN {value} END)", **one)
            is_null = fill_statement("{among} AND {value} IS NULL", **one)
            aggregates += [
                alias_as(_write_as_text(least, kind), f"{_LEAST}{place}"),
                alias_as(_write_as_text(greatest, kind), f"{_GREATEST}{place}"),
                count_where(is_null, f"{_NULLS}{place}"),
            ]
        return aggregates

    def read_bounds(self, row: Mapping[str, Any]) -> tuple[Bound, ...] | None:
        """Converts `row`, the values of the aggregates, to bounds; None if no row of the query met the condition."""
        if not int(row[_ROWS]):
            return None
        return tuple(
            _build_range(
                column, kind, (row[f"{_LEAST}{place}"], row[f"{_GREATEST}{place}"]), int(row[f"{_NULLS}{place}"])
            )
            for place, (column, (_, kind)) in enumerate(self.values.items())
        )


_ROWS, _LEAST, _GREATEST, _NULLS = "sought rows", "least", "greatest", "nulls"


def compute_pruning_bounds(
    rows: DataFrame,
    count: int,
    table_rows: int,
    thresholds: PruningThresholds,
    known: tuple[Bound, ...] | None = None,
) -> Sequence[Bound] | None:
    """Computes bounds that contain all rows of a table with the same values as a row of `rows`.

    `rows` has the compared columns of the table, and about `count` rows; a null is an unknown value. `table_rows` is
    the number of the table's rows. Returns None if `rows` has no rows, and no bounds if pruning is not worthwhile, such
    as for a small table. `known` are ranges that were computed before; they are used if there are too many rows for
    IN-lists. Otherwise this runs one Spark job.
    """
    if count == 0:
        return None
    ranges = known if count > thresholds.in_list_values else None
    is_mostly_read = ranges is None and table_rows <= thresholds.scanned_table_ratio * count
    if is_scanned(table_rows, thresholds) or is_mostly_read:
        return ()
    known_bounds = collect_bounds(rows, count, thresholds) if ranges is None else ranges
    return known_bounds and tuple(bound for bound in known_bounds if not bound.or_null)


def write_nearby_condition(bounds: Sequence[Bound] | None, alias: str | None = None) -> Sql:
    """Builds the condition that is true for all rows of a table within `bounds`.

    None for `bounds` stands for no rows, so the condition is false; an empty sequence sets no bounds, so it is true.
    `alias` is the table's alias in the query.
    """
    if bounds is None:
        return NOWHERE
    return write_expression(build_bounds_condition(bounds, alias)) if bounds else EVERYWHERE


def list_location_columns(model: Model) -> dict[str, Sql]:
    """Returns expressions over a change row for the key and partition columns of the row that it replaces, by name.

    Partition columns outside the key are taken from `_before`.
    """
    key = model.config.primary_key
    rest = [
        transform.column
        for transform in model.config.partition_by
        if not any(is_same_name(transform.column, part) for part in key)
    ]
    return {part: quote_name(part) for part in key} | {part: quote_name(BEFORE, part) for part in rest}


def lookup_keys(keys: DataFrame, count: int, table_rows: int, thresholds: PruningThresholds) -> Keys:
    """Prepares `keys` for lookups in a table of `table_rows` rows.

    `keys` has about `count` rows, and only the columns of the table's key.
    """
    named = keys.select(*as_key(keys.columns))
    near = write_nearby_condition(compute_pruning_bounds(keys, count, table_rows, thresholds))
    return Keys(named, count <= thresholds.broadcast_keys, near)


def is_scanned(table_rows: int, thresholds: PruningThresholds) -> bool:
    """Whether a table has so few rows that a lookup reads all of them instead of pruning files."""
    return table_rows <= thresholds.scanned_table_rows


def collect_bounds(rows: DataFrame, count: int, thresholds: PruningThresholds) -> tuple[Bound, ...] | None:
    """Computes an IN-list or a range for each column of `rows` whose type allows it; None if there are no rows.

    `count` is the approximate number of rows; up to the threshold `in_list_values`, IN-lists are computed.
    """
    return collect_all_bounds([(rows, count)], thresholds)[0]


def collect_all_bounds(
    parts: Sequence[tuple[DataFrame, int]], thresholds: PruningThresholds
) -> list[tuple[Bound, ...] | None]:
    """Computes bounds as `collect_bounds` does, for several frames, each with its approximate number of rows.

    Ranges are computed by one statement for all frames, whose parts Spark computes at the same time.
    """
    ranged = {place: rows for place, (rows, count) in enumerate(parts) if count > thresholds.in_list_values}
    known = _collect_ranges(ranged) if ranged else {}
    return [known[place] if place in known else _collect_value_lists(rows) for place, (rows, _) in enumerate(parts)]


def _collect_value_lists(rows: DataFrame) -> tuple[Bound, ...] | None:
    types = _list_bounded_types(rows)
    rows_read = rows.selectExpr(*[_write_as_text(quote_name(field), kind) for field, kind in types.items()]).collect()
    if not rows_read:
        return None
    values = {field: {row[place] for row in rows_read} for place, field in enumerate(types)}
    return tuple(
        Bound(field, types[field], tuple(sorted(texts - {None})), is_range=False, or_null=None in texts)
        for field, texts in values.items()
    )


def _collect_ranges(parts: Mapping[int, DataFrame]) -> dict[int, tuple[Bound, ...] | None]:
    ranges, frames = {}, []
    for place, rows in parts.items():
        ranges[place] = Ranges({name: (quote_name(name), kind) for name, kind in _list_bounded_types(rows).items()})
        summed = rows.agg(*map(F.expr, ranges[place].build_aggregates()))
        texts = F.array(*[F.col(name).cast("string") for name in summed.columns])
        frames.append(summed.select(F.lit(place), F.lit(summed.columns), texts))
    computed = reduce(DataFrame.unionAll, frames).collect()
    return {place: ranges[place].read_bounds(dict(zip(names, texts, strict=True))) for place, names, texts in computed}


def _list_bounded_types(rows: DataFrame) -> dict[str, str]:
    return {name: kind for name, kind in rows.dtypes if is_bounded(kind)}


def _build_range(column: str, kind: str, ends: tuple[str | None, str | None], nulls: int) -> Bound:
    values = tuple(end for end in ends if end is not None)
    return Bound(column, kind, values if len(values) == 2 else (), is_range=True, or_null=nulls > 0)


def count_where(is_one: Sql, called: str) -> Sql:
    """Builds the aggregate that counts rows which meet the condition `is_one`, as a column named `called`."""
    return alias_as(fill_statement("count(CASE WHEN {is_one} THEN true END)", is_one=is_one), called)


def _write_as_text(value: Sql, kind: str) -> Sql:
    """Casts a value of the SQL type `kind` to the text that `Bound` stores, such as days since 1970 for a date."""
    since = {"date": Sql("unix_date"), "timestamp": Sql("unix_micros")}.get(kind, Sql(""))
    return fill_statement("CAST({since}({value}) AS string)", since=since, value=value)
