"""Updates the aggregate state of a table: counts, sums, minimums and maximums per group, in a table of its own.

A run writes the state before it publishes the change rows, and the commit of the change rows names the snapshot of the
state. So if the run dies between the two, the state that the last commit names still exists. If the row with a group's
minimum or maximum was deleted, the group is recomputed from the sources, which are read only in this case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typing_extensions import LiteralString

from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Node
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.strategies.aggregate_state import (
    LOST,
    ROWS,
    AggregateState,
    hash_state,
    list_aggregate_states,
    with_state_view,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import RUN
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_model
from arctic_runtime.spark.changes.equality import compare_bags
from arctic_runtime.spark.engine.jobs import Parallel
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.internal import InternalTable, replace_internal_table
from arctic_runtime.spark.tables.rows.frames import NULL, Hold, as_key, cast_as, match_key, read_table, to_column

Register = Callable[[Sequence[Node]], None]

# Two names, since Spark Connect resolves the name of a view only when rows are read.
_BEFORE, _AFTER = "__arctic_totals_before", "__arctic_totals_after"
_LOST = "__arctic_is_lost"
_MOST_BEHIND = 34
"""Maximum number of decimal places of a stored sum with which later additions of decimals lose no digits."""


@dataclass(frozen=True)
class ChangedGroups:
    """Result rows of groups, after the changes (`now`) and before the changes (`before`).

    They contain all groups that changed, and maybe others. The columns are those of the query's operator tree. If
    `before` is None, `now` has the rows of all groups.
    """

    now: DataFrame
    before: DataFrame | None


def update_aggregate_state(
    context: Context, plan: AggregateState, register: Register, hold: Hold, background: Parallel
) -> ChangedGroups | None:
    """Updates or creates the stored aggregate state, and returns the result rows of the groups that changed.

    Returns None if the state can't be kept, since it has too many groups or a column of a type for which sums depend on
    the order of addition. `register` creates the views of sources that operator trees read, and `hold` caches rows that
    are read several times. An updated state is written in a `background` thread.
    """
    spark, thresholds = context.spark, context.thresholds.incremental
    before = _read_stored_state(context, plan)
    register((plan.state, plan.result) if before is None else (plan.state_changes, plan.result, plan.old_result))
    if before is None:
        made = _compute_state(spark, plan)
        if made is None:
            return None
        everything = hold(made)
        if everything.limit(thresholds.state_groups + 1).count() > thresholds.state_groups:
            return None
        _write_state(context, everything)
        return ChangedGroups(_compute_result_rows(spark, everything, plan.result, _AFTER), None)
    materialize = partial(_materialize_small, max_rows=thresholds.state_groups, hold=hold)
    state_changes = materialize(spark.sql(render_sql(plan.state_changes)))
    now = _apply_changes(before, state_changes, plan, register, materialize)
    background.submit_action(partial(_write_state, context, now))
    base = context.state.base
    is_few = base is not None and base.rows <= thresholds.compared_groups
    takes_all = is_few or not plan.by_group
    old_state, new_state = (
        state_rows if takes_all else _select_changed_groups(state_rows, state_changes, plan.keys)
        for state_rows in (before, now)
    )
    return ChangedGroups(
        _compute_result_rows(spark, new_state, plan.result, _AFTER),
        _compute_result_rows(spark, old_state, plan.old_result, _BEFORE),
    )


def find_plan(model: Model, upstreams: Upstreams, fingerprint: str) -> AggregateState | None:
    """Returns the plan of the query's aggregate state whose hash is `fingerprint`; None if there is none."""
    try:
        analysed, _ = analyse_model(model, upstreams)
    except NotMaintained:
        return None
    plans = list_aggregate_states(analysed.tree, analysed.types)
    return next((plan for plan in plans if hash_state(plan) == fingerprint), None)


def find_differing_groups(spark: SparkSession, model: Model, snapshot: int, plan: AggregateState) -> DataFrame:
    """Returns the groups whose stored aggregate state differs from a newly computed one.

    `snapshot` is the snapshot id of the stored state. The result has the columns of the group's key, and the structs
    `kept` and `computed` with the stored and the newly computed values. The views that `plan.state` reads must exist.
    """
    stored = read_state(spark, model, snapshot, plan)
    made = cast_like(spark.sql(render_sql(plan.state)), stored)
    keys, values = [to_column(key) for key in plan.keys], F.struct(*[to_column(part) for part in plan.names])
    both = compare_bags(made, stored, MULTIPLICITY)
    sides = {"kept": F.col(MULTIPLICITY) < 0, "computed": F.col(MULTIPLICITY) > 0}
    groups = both.groupBy(*keys).agg(*[F.max(F.when(is_so, values)).alias(side) for side, is_so in sides.items()])
    # Without keys the aggregation returns a row for no input as well.
    return groups.where(F.col("kept").isNotNull() | F.col("computed").isNotNull())


def _compute_state(spark: SparkSession, plan: AggregateState) -> DataFrame | None:
    """Computes the aggregate state of all groups; None if Spark can't, or if sums depend on the order of addition."""
    try:
        made = spark.sql(render_sql(plan.state))
    except AnalysisException:
        return None
    sizes = [get_precision_and_scale(dict(made.dtypes)[part]) for part in plan.sums]
    return made if all(size and size[1] <= _MOST_BEHIND for size in sizes) else None


def _read_stored_state(context: Context, plan: AggregateState) -> DataFrame | None:
    """Reads the aggregate state that the newest run has stored; None if it has stored none, or one for another plan."""
    state = context.state
    last = find_last_run(state.changes)
    if state.aggregate_state is None or last is None or last.aggregate_state != hash_state(plan):
        return None
    return read_state(context.spark, context.model, state.aggregate_state, plan)


def read_state(spark: SparkSession, model: Model, snapshot: int, plan: AggregateState) -> DataFrame:
    """Reads the aggregate state in `snapshot` of the model's state table, with the column names of `plan`."""
    return read_table(spark, model.table.totals, snapshot).toDF(*plan.keys, *plan.names)


def _apply_changes(
    before: DataFrame, state_changes: DataFrame, plan: AggregateState, register: Register, materialize: Hold
) -> DataFrame:
    """Returns the aggregate state after the changes; recomputes groups that lost a minimum or maximum from the sources.

    `before` is the state before the changes, `state_changes` has the changes per group. `register` creates the views of
    sources that operator trees read; `materialize` computes rows at once, so that they are not recomputed for each use.
    """
    added = _add_changes(before, state_changes, plan)
    if not plan.extremes:
        return added
    added = materialize(added)
    lost, unaffected = added.where(_LOST), added.where(~F.col(_LOST)).drop(_LOST)
    if lost.isEmpty():
        return unaffected
    if plan.keys:
        lost.select(*[to_column(key) for key in plan.keys]).createOrReplaceTempView(quote_name(LOST))
    # Views have only the columns of the registered trees, and earlier plans read them as well: register all trees.
    register((plan.state_changes, plan.recomputed, plan.result, plan.old_result))
    recomputed = before.sparkSession.sql(render_sql(plan.recomputed))
    return materialize(unaffected.unionAll(cast_like(recomputed, before)))


def _materialize_small(rows: DataFrame, max_rows: int, hold: Hold) -> DataFrame:
    """Computes `rows` at once and keeps them in the driver, if they are at most `max_rows` without nested types.

    Otherwise `hold` caches them. For few rows a cache would not be enough: Spark drops cached rows as soon as the state
    table, from which they are computed, is written, and would recompute them for each later use.
    """
    if any("<" in kind for _, kind in rows.dtypes):
        return hold(rows)
    table = rows.limit(max_rows + 1).toArrow()
    return rows.sparkSession.createDataFrame(table, rows.schema) if table.num_rows <= max_rows else hold(rows)


def _add_changes(before: DataFrame, state_changes: DataFrame, plan: AggregateState) -> DataFrame:
    """Adds `state_changes` to the state `before`, with the types of `before`; drops groups without remaining rows.

    If the state has minimums or maximums, the column _LOST says whether the group may have lost one.
    """
    types = dict(before.dtypes)
    gone = {extreme.removed_extreme: types[extreme.name] for extreme in plan.extremes}
    came = cast_like(state_changes, before, gone)
    # The state is small: in one partition, grouping needs no shuffle.
    both = before.selectExpr("*", *[cast_as(NULL, kind, part) for part, kind in gone.items()]).unionAll(came)
    sums = [cast_as(fill_statement("sum({part})", part=quote_name(part)), types[part], part) for part in plan.sums]
    ends = [
        cast_as(fill_statement(_EXTREMES[extreme.kind], part=quote_name(part)), types[extreme.name], part)
        for extreme in plan.extremes
        for part in (extreme.name, extreme.removed_extreme)
    ]
    grouped = both.coalesce(1).groupBy(*[to_column(key) for key in plan.keys])
    summed = grouped.agg(*map(F.expr, (*sums, *ends)))
    summed = summed.where(to_column(ROWS) != 0) if plan.keys else summed
    if not plan.extremes:
        return summed
    is_lost = reduce(or_, [_is_lost(one.kind, one.name, one.removed_extreme) for one in plan.extremes])
    return summed.withColumn(_LOST, is_lost).drop(*gone)


_EXTREMES: Mapping[str, LiteralString] = {"min": "min({part})", "max": "max({part})"}


def _is_lost(kind: str, name: str, gone: str) -> Expression:
    """Builds the condition that a group may have lost its minimum or maximum (`kind`) by removed rows.

    `name` is the column of the minimum or maximum over the stored and added rows, `gone` that over the removed rows.
    """
    is_beyond = to_column(name) < to_column(gone) if kind == "min" else to_column(name) > to_column(gone)
    return to_column(gone).isNotNull() & ~F.coalesce(is_beyond, F.lit(False))


def cast_like(rows: DataFrame, stored: DataFrame, more: Mapping[str, str] | None = None) -> DataFrame:
    """Casts the columns of `rows` to their types in `stored`, and the columns in `more` to the types given there."""
    types = {**dict(stored.dtypes), **(more or {})}
    return rows.selectExpr(*[cast_as(quote_name(part), kind, part) for part, kind in types.items()])


def _select_changed_groups(rows: DataFrame, state_changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Selects from `rows`, an aggregate state, the groups that are in `state_changes`, the changes per group.

    `keys` are the columns of the group; nulls in them equal each other.
    """
    if not keys:
        return rows
    touched = state_changes.select(*as_key(keys)).hint("broadcast")
    return rows.join(touched, match_key(rows, keys, null_safe=True), "left_semi")


def _compute_result_rows(spark: SparkSession, rows: DataFrame, result: Node, view: str) -> DataFrame:
    """Computes result rows of the query from `rows`, an aggregate state, by the operator tree `result`.

    `view` is the name of the temporary view that it creates for the state.
    """
    rows.coalesce(1).createOrReplaceTempView(quote_name(view))
    return spark.sql(render_sql(with_state_view(result, view)))


def copy_state(context: Context, table: TableName, snapshot: int) -> None:
    """Replaces the stored aggregate state by that which the model `table` has in this snapshot of its state table."""
    _write_state(context, read_table(context.spark, table.totals, snapshot))


def _write_state(context: Context, rows: DataFrame) -> None:
    """Replaces the stored aggregate state by `rows`; earlier states can still be read at their snapshots."""
    table = context.model.table.totals
    columns_renamed = rows.toDF(*[f"total_{place}" for place in range(len(rows.columns))])
    replace_internal_table(
        "aggregate_state.write",
        context.reader,
        InternalTable(table, "totals"),
        columns_renamed.coalesce(1),
        {RUN: context.token},
    )
