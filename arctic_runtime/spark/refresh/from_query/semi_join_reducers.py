"""Creates semi-join reducers: views of the rows of a large source that a plan can need, each read only once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import or_

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Image, list_columns
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.rewrite.semi_join_reducers import RowLookup, SemiJoinReducer
from arctic_runtime.model.files.bounds import build_bounds_condition
from arctic_runtime.spark.engine.statement import Sql, quote_name, write_expression
from arctic_runtime.spark.refresh.from_query.images import SourceWindows
from arctic_runtime.spark.tables.rows.bounds import collect_bounds
from arctic_runtime.spark.tables.rows.frames import Hold, as_key, match_key, to_column
from arctic_runtime.thresholds import PruningThresholds

_FOUND = "__arctic_found_"


@dataclass(frozen=True)
class _LookupValues:
    """Distinct values by which rows of a source are looked up; a row matches if its columns `fields` equal one of them.

    `values` has one row per value, with columns named as `match_key` expects; `count` is the number of its rows. Nulls
    equal each other if `null_safe`.
    """

    fields: tuple[str, ...]
    null_safe: bool
    values: DataFrame
    count: int
    thresholds: PruningThresholds

    @cached_property
    def build_nearby_condition(self) -> Expression:
        """Condition on the source that all matching rows meet, so that Iceberg can skip files without such rows."""
        known_bounds = collect_bounds(self.values.toDF(*self.fields), self.count, self.thresholds)
        return F.lit(False) if known_bounds is None else F.expr(write_expression(build_bounds_condition(known_bounds)))


def register_reducers(sources: SourceWindows, reducers: Iterable[SemiJoinReducer], hold: Hold) -> None:
    """Creates the temporary views of semi-join reducers; the views that their lookups read must exist already.

    If there are more lookup values than the threshold `reducer_values`, the views have all rows of the source that meet
    the reducer's condition.
    """
    spark, thresholds = sources.spark, sources.thresholds
    for part in reducers:
        lookup_values = tuple(_collect_lookups(spark, part.lookups, thresholds.pruning, hold))
        read = sources.get_window(part.source)
        where = write_expression(part.condition or exp.true())
        if sum(one.count for one in lookup_values) <= thresholds.incremental.reducer_values:
            fields = tuple(dict.fromkeys((*(read.source.key or ()), *list_columns(part.full_scan))))
            select = partial(_hold_matching_rows, fields=fields, where=where, lookup_values=lookup_values, hold=hold)
            rows = read.read_rows_at(read.window.end, select)
        else:
            rows = read.read_rows_at(read.window.end).where(where)
        _register_images(spark, part, rows.select(*map(to_column, list_columns(part.full_scan))))


def _collect_lookups(
    spark: SparkSession, lookups: Iterable[RowLookup], thresholds: PruningThresholds, hold: Hold
) -> Iterator[_LookupValues]:
    """Computes the values for which `lookups` search in a source; lookups by the same columns are combined to one."""
    together: dict[tuple[str, ...], list[RowLookup]] = {}
    for one in lookups:
        together.setdefault(one.fields, []).append(one)
    for fields, same_columns in together.items():
        values = reduce(DataFrame.unionAll, [spark.sql(render_sql(one.values)) for one in same_columns]).distinct()
        values = hold(values.select(*as_key(values.columns)))
        yield _LookupValues(fields, any(one.null_safe for one in same_columns), values, values.count(), thresholds)


def _hold_matching_rows(
    rows: DataFrame, fields: Iterable[str], where: Sql, lookup_values: Sequence[_LookupValues], hold: Hold
) -> DataFrame:
    """Selects `fields` of the rows that meet `where` and match a value in `lookup_values`, computes and caches them.

    They are computed at once, so that Spark knows their number, and filters the rows of a base table before it merges
    them with unmerged changes.
    """
    matching = hold(_select_matching_rows(rows.select(*map(to_column, fields)).where(where), lookup_values))
    matching.count()
    return matching


def _select_matching_rows(rows: DataFrame, lookup_values: Sequence[_LookupValues]) -> DataFrame:
    """Selects the rows that match a value in any of `lookup_values`.

    The values are broadcast, so that the rows are not shuffled.
    """
    flags = {f"{_FOUND}{number}": one for number, one in enumerate(lookup_values)}
    rows = rows.where(reduce(or_, [one.build_nearby_condition for one in flags.values()]))
    for flag, one in flags.items():
        values = one.values.withColumn(flag, F.lit(True)).hint("broadcast")
        rows = rows.join(values, match_key(rows, one.fields, one.null_safe), "left").drop(*one.values.columns)
    return rows.where(reduce(or_, [F.col(flag).isNotNull() for flag in flags])).drop(*flags)


def _register_images(spark: SparkSession, part: SemiJoinReducer, rows: DataFrame) -> None:
    """Creates the views of a reducer: the source's rows after the changes (`new`), before them (`old`), or `either`.

    They are computed from `rows`, the matching rows after the changes, and from the changes of the source.
    """
    shown: dict[Image, DataFrame] = {"new": rows}
    if part.changes is not None:
        assert part.full_scan.key is not None
        moved = spark.sql(render_sql(part.changes))
        gone = moved.where(F.col(MULTIPLICITY) < 0).drop(MULTIPLICITY)
        stayed = rows.join(moved.select(*as_key(part.full_scan.key)), match_key(rows, part.full_scan.key), "left_anti")
        shown |= {"either": rows.unionAll(gone), "old": stayed.unionAll(gone)}
    for image, view in part.images.items():
        shown[image].createOrReplaceTempView(quote_name(view))
