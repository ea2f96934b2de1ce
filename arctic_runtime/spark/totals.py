"""Totals of a table's groups, kept beside it.

They are written before the change rows are committed, under the same run's token, and are of no meaning until that
commit names them: after a death between the two, the totals that the last commit names are still there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.observe import KIND
from arctic_runtime.plan.decide import RUN, TOTALS, last_run
from arctic_runtime.plan.incremental.exact import digits
from arctic_runtime.plan.incremental.render import render
from arctic_runtime.plan.incremental.totals import ROWS, Totals
from arctic_runtime.plan.incremental.totals import TOTALS as GIVEN
from arctic_runtime.plan.incremental.tree import Node
from arctic_runtime.spark.commit import attempt
from arctic_runtime.spark.execute import Context
from arctic_runtime.spark.frames import as_key, column, match, read_table
from arctic_runtime.spark.statement import name

_MOST_BEHIND = 34
"""Digits behind the point that a sum of decimals keeps for certain when it stands beside a zero."""


@dataclass(frozen=True)
class Followed:
    """Rows in the tree's columns: of the groups that changed `now` and `before`; where that is None, of all groups."""

    now: DataFrame
    before: DataFrame | None


def follow(
    context: Context,
    plan: Totals,
    register: Callable[[Sequence[Node]], None],
    hold: Callable[[DataFrame], DataFrame],
) -> Followed | None:
    """Brings the kept totals up to date, and makes them where there are none; None where they can't be added up.

    `register` makes the images that trees read, and `hold` marks rows that are read more than once.
    """
    spark = context.spark
    before = _kept(context, plan)
    register((plan.state if before is None else plan.moved, plan.result))
    if before is None:
        made = _made(spark, plan)
        if made is None:
            return None
        everything = hold(made)
        _write(context, everything)
        return Followed(_shown(spark, everything, plan), None)
    moved = hold(spark.sql(render(plan.moved)))
    now = hold(_added(before, moved, plan))
    _write(context, now)
    first, last = (_shown(spark, _of_groups(found, moved, plan.keys), plan) for found in (before, now))
    return Followed(last, first)


def fingerprint(plan: Totals) -> str:
    """Changes whenever other totals, or totals in another order, are kept."""
    return hashlib.sha256(render(plan.state).encode()).hexdigest()[:16]


def _made(spark: SparkSession, plan: Totals) -> DataFrame | None:
    """The totals of everything; None where they turn out to be of a type that can't be added up in any order."""
    try:
        made = spark.sql(render(plan.state))
    except AnalysisException:
        return None
    sizes = [digits(dict(made.dtypes)[total]) for total in plan.names]
    return made if all(size and size[1] <= _MOST_BEHIND for size in sizes) else None


def _kept(context: Context, plan: Totals) -> DataFrame | None:
    """The totals as of the newest run; None where it kept none, or others than this plan's."""
    state = context.state
    last = last_run(state.changes)
    if state.totals is None or last is None or last.get(TOTALS) != fingerprint(plan):
        return None
    return read_table(context.spark, context.model.table.totals, state.totals).toDF(*plan.keys, *plan.names)


def _added(totals: DataFrame, moved: DataFrame, plan: Totals) -> DataFrame:
    """The totals after what has moved is added, in their own types; groups without rows are gone."""
    types = dict(totals.dtypes)
    sums = [F.sum(column(total)).cast(types[total]).alias(total) for total in plan.names]
    names = [*plan.keys, *plan.names]
    # In one part nothing has to be put together by its key, and there is little of it.
    both = totals.unionAll(moved.select(*[column(kept).cast(types[kept]).alias(kept) for kept in names]))
    found = both.coalesce(1).groupBy(*[column(key) for key in plan.keys]).agg(*sums)
    return found.where(column(ROWS) != 0) if plan.keys else found


def _of_groups(totals: DataFrame, moved: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The totals of those groups that have moved; a null is a group's key as any value is."""
    if not keys:
        return totals
    touched = moved.select(*as_key(keys)).hint("broadcast")
    return totals.join(touched, match(totals, keys, null_safe=True), "left_semi")


def _shown(spark: SparkSession, totals: DataFrame, plan: Totals) -> DataFrame:
    """The rows of the query, in the tree's columns, that follow from totals."""
    totals.coalesce(1).createOrReplaceTempView(name(GIVEN))
    return spark.sql(render(plan.result))


def _write(context: Context, totals: DataFrame) -> None:
    """Replaces the kept totals by this run's; earlier ones can still be read as of their snapshot."""
    table = context.model.table.totals
    places = [column(kept).alias(f"total_{i}") for i, kept in enumerate(totals.columns)]
    writer = totals.select(*places).coalesce(1).writeTo(name(*table.parts)).using("iceberg")
    writer = writer.tableProperty("format-version", "3").tableProperty(KIND, "totals")
    writer = writer.option(f"snapshot-property.{RUN}", context.token)
    attempt(writer.createOrReplace, f"write {table}")
