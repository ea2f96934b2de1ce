"""Computes the change rows by which a table takes over the rows of a clone, and plans the run that does so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, name_before
from arctic_runtime.model.columns import find_column
from arctic_runtime.model.shape import is_named
from arctic_runtime.plan.refresh.promote import ChangedRows, Promotion
from arctic_runtime.plan.refresh.session_changes import SessionState
from arctic_runtime.refresh_planner import PlannedRefresh, RefreshPlanner
from arctic_runtime.spark.changes.diff import build_pair_images, diff_states, emit_image_changes
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.refresh.aggregate_state import copy_state
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.images import SourceWindow, read_rows_at
from arctic_runtime.spark.tables.rows.frames import combine_all, to_column

_CLONE, _OWN = "clone", "own"


def plan_promoted_run(planner: RefreshPlanner, session: Callable[[], SparkSession]) -> PlannedRefresh | None:
    """Plans the run that takes over the clone of the planner's request; None if there is nothing to take over.

    `session` is called only if there is something. Raises ConfigError if the table can't take over the clone.
    """
    if planner.plan_refresh().decision.promotion is None:
        return None
    spark = session()
    known = replace(planner.request, session=SessionState(spark.version, spark.conf.getAll))
    planned = planner.plan_refresh(known)
    return planned if planned.decision.promotion is not None else None


def compute_promotion(attempt: PreparedAttempt, plan: Promotion) -> Computed:
    """Computes the change rows that turn the table's rows into those of the clone, and the record of its run.

    Columns that the query does not return keep their present values, as in any other run.
    """
    entries = plan.build_entries()
    if plan.aggregate_state is not None and plan.clone.aggregate_state is not None:
        copy_state(attempt.context, plan.clone.clone.table, plan.clone.aggregate_state)
        entries = replace(entries, aggregate_state=plan.aggregate_state)
    if plan.changed is None:
        return Computed(_compare_rows(attempt, plan), entries)
    pairs = _pair_rows(attempt, *plan.changed)
    stored = [column.name for column in attempt.shape.columns]
    images = build_pair_images(pairs, attempt.shape, stored)
    return Computed(emit_image_changes(images, attempt.shape), entries, is_gathered=True)


def _compare_rows(attempt: PreparedAttempt, plan: Promotion) -> DataFrame:
    """Computes the change rows by a comparison of all rows of the table with all those of the clone."""
    head = plan.clone.changes.head
    assert head is not None
    rows = read_rows_at(attempt.spark, plan.clone.source, head, attempt.thresholds.pruning)
    new = rows.select(*[to_column(name) for name in attempt.shape.given])
    return diff_states(new, attempt.read_all_rows(), attempt.shape)


def _pair_rows(attempt: PreparedAttempt, theirs: ChangedRows, ours: ChangedRows) -> DataFrame:
    """Pairs the rows of the clone and of the table by the keys that either has changed since the clone was made.

    A key that only one of them has changed has in the other the row from before that change.
    """
    if ours.is_empty:
        return _read_pairs(attempt, theirs)
    stored = [column.name for column in attempt.shape.columns]
    sides = [_read_pairs(attempt, changed).alias(side) for side, changed in ((_CLONE, theirs), (_OWN, ours))]
    on_key = combine_all([_get_value(_CLONE, part) == _get_value(_OWN, part) for part in attempt.shape.key])
    joined = sides[0].join(sides[1], on_key, "full_outer")
    given = [name for name in stored if is_named(name, attempt.shape.given)]
    now = [_choose(_CLONE, name, _OWN, name_before(name)).alias(name) for name in given]
    was = [_choose(_OWN, name, _CLONE, name_before(name)).alias(name_before(name)) for name in stored]
    return joined.select(
        *now,
        *was,
        _choose(_CLONE, HAS_AFTER, _OWN, HAS_BEFORE).alias(HAS_AFTER),
        _choose(_OWN, HAS_AFTER, _CLONE, HAS_BEFORE).alias(HAS_BEFORE),
    )


def _read_pairs(attempt: PreparedAttempt, changed: ChangedRows) -> DataFrame:
    """Reads the row before and the row after for each key that change rows are of.

    Columns that the table did not have by then are null.
    """
    stored = [column.name for column in attempt.shape.columns]
    absent = [name for name in stored if find_column(changed.source.columns, name) is None]
    window = SourceWindow(attempt.spark, changed.source, changed.window, attempt.thresholds)
    pairs = window.read_image("pair", stored)
    nulls = [F.lit(None).alias(part) for name in absent for part in (name, name_before(name))]
    return pairs.select("*", *nulls)


def _choose(side: str, name: str, other: str, other_name: str) -> Column:
    """Returns a column of one side if it has changed the key, and otherwise one of the other side."""
    has_changed = _get_value(side, HAS_AFTER).isNotNull()
    return F.when(has_changed, _get_value(side, name)).otherwise(_get_value(other, other_name))


def _get_value(side: str, name: str) -> Column:
    return F.col(quote_name(side, name))
