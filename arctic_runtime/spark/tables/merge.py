"""Merges change rows into the base table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.effects import perform_effect
from arctic_runtime.model.columns import ACTION
from arctic_runtime.model.files.bounds import Bound
from arctic_runtime.model.shape import DELETE, INSERT
from arctic_runtime.model.step import (
    MergeBase,
)
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.reconcile import is_overwritten
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.jobs import Parallel, override_settings
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, quote_name, quote_number
from arctic_runtime.spark.tables.commit import (
    build_base_summary,
    build_summary_options,
    build_summary_settings,
    overwrite_table,
    replace_rows,
    swap_in,
)
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.create import DELETE_ISOLATION
from arctic_runtime.spark.tables.delete import TARGET, RowMatch, build_key_conditions, delete_matching
from arctic_runtime.spark.tables.rows.bounds import (
    NOWHERE,
    compute_pruning_bounds,
    list_location_columns,
    write_nearby_condition,
)
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    Unmerged,
    as_key,
    conform_frame,
    overlay_changes,
    read_own_changes,
    read_table,
    select_newest_changes,
    to_column,
)
from arctic_runtime.thresholds import PruningThresholds

# Rows that are joined to a base are shuffled to its nodes; the base is not, even if it has partitions besides buckets.
_MOVED_TO_NODES = {"spark.sql.sources.v2.bucketing.shuffle.enabled": "true"}


_JOINED_AS_IT_LIES = {
    **_MOVED_TO_NODES,
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
}
WITHOUT_DYNAMIC_PRUNING = {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}
"""Settings by which Spark does not look for the files and buckets of a join's one side by the rows of the other."""

_JOINS_WITHOUT_PARTITIONS = "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled"
"""Spark setting that joins tables by their buckets although their other partition columns are not joined."""

_OLDEST_WITHOUT_PARTITIONS = (4, 1, 4)
"""Oldest version of Spark on which this setting is known to work; on 4.1.1 such joins end in ArrayIndexOutOfBounds."""


# Keeps rows that are read as one part in one part in an anti join by keys: Spark would push this join down.
_LEFT_OUT_IN_ONE_PART = {
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushDownLeftSemiAntiJoin"
}


def build_join_settings(spark: SparkSession) -> dict[str, str]:
    """Builds session settings by which rows are joined to a table without a shuffle of the table's rows.

    On a Spark that can't do so for a partitioned table, its rows are shuffled.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", spark.version)[:3])
    is_known = str(version >= _OLDEST_WITHOUT_PARTITIONS).lower()
    return {**_JOINED_AS_IT_LIES, _JOINS_WITHOUT_PARTITIONS: is_known}


def build_lookup_settings(keys: int, thresholds: PruningThresholds) -> dict[str, str]:
    """Builds session settings for a statement that looks up about `keys` keys in a table with buckets.

    For few keys, Spark reads only the buckets that contain them; many keys are shuffled to the buckets of their rows.
    """
    is_pruned = keys <= thresholds.bucket_pruning_keys
    pruning = {} if is_pruned else WITHOUT_DYNAMIC_PRUNING
    return {**pruning, **(_MOVED_TO_NODES if keys > thresholds.broadcast_keys else {})}


def merge_base(step: MergeBase, context: Context) -> None:
    """Merges the change rows of a step into the base table; a repeated merge changes nothing.

    A small base table without partitions is overwritten in one commit, and so is any of which most rows are replaced.
    Otherwise replaced rows are deleted and new ones appended, on a branch that is then published. Raises CommitConflict
    if the base table has changed.
    """
    model, spark, base, changes = context.model, context.spark, context.state.base, context.state.changes
    assert base is not None
    assert changes is not None
    appended = read_own_changes(spark, model.table.changes, changes, step.start, step.end)
    if is_overwritten(model, base, context.thresholds.merge):
        # Read as one part, so that no row has to be shuffled to be joined with its change.
        old = read_table(spark, step.table, step.expected, base.old_column_names).coalesce(1)
        came = appended.coalesce(1)
        rows = overlay_changes(
            old, Unmerged(came, step.commits, False), model.config.primary_key, base.columns
        ).coalesce(1)
        order = [to_column(part) for part in (*model.config.sort_key, *model.config.primary_key)]
        ordered = rows.sortWithinPartitions(*order) if order else rows
        with override_settings(spark, _LEFT_OUT_IN_ONE_PART):
            overwrite_table(ordered, step.table, step.expected, build_base_summary(step.end, context.state.changes))
        return
    own = _find_own_commit(step, context)
    if own is not None and own.replaced_rows > context.thresholds.merge.overwritten_share * base.rows:
        _overwrite_most(step, context, appended)
        return
    # In a single commit an inserted key had no row before; with several it may have been deleted in between.
    gone = (
        appended.where(F.col(ACTION) != INSERT) if step.commits == 1 and changes.keeps_version(step.start) else appended
    )
    newest = select_newest_changes(appended, model.config.primary_key, step.commits)
    alive = conform_frame(newest.where(F.col(ACTION) != DELETE), base.columns)
    count = changes.count_rows_after(step.start) if own is None else own.replaced_rows
    known = None if own is None else own.replaced
    located, pruning = _locate_replaced_rows(appended, model), context.thresholds.pruning
    find_bounds = partial(compute_pruning_bounds, located, count, base.rows, pruning, known)
    replaced_rows = _ReplacedRows(gone.select(*as_key(model.config.primary_key)), count, find_bounds)

    def merge_attempt(branch: Sequence[str]) -> None:
        _replace_rows(context, branch, replaced_rows, alive, build_base_summary(step.end, context.state.changes))

    swap_in(context.attempt, step.table, step.expected, merge_attempt)


def _overwrite_most(step: MergeBase, context: Context, appended: DataFrame) -> None:
    """Overwrites the base table in one commit by its rows with the change rows `appended` applied.

    If most rows are replaced, to write the others anew takes less time than to delete most rows by deletion vectors.
    """
    base = context.state.base
    assert base is not None
    old = read_table(context.spark, step.table, step.expected, base.old_column_names)
    rows = overlay_changes(old, Unmerged(appended, step.commits, False), context.model.config.primary_key, base.columns)
    options = build_summary_options(build_base_summary(step.end, context.state.changes))
    with override_settings(context.spark, {**build_join_settings(context.spark), **WITHOUT_DYNAMIC_PRUNING}):
        replace_rows("base.overwrite", rows, step.table, step.expected, f"overwrite {step.table}", options)


@dataclass(frozen=True)
class _ReplacedRows:
    """The rows of the base table to delete: their keys and their approximate number.

    `find_bounds` computes bounds of the key and partition values of these rows; it returns None if there are no rows.
    """

    keys: DataFrame
    count: int
    find_bounds: Callable[[], Sequence[Bound] | None]


def _find_own_commit(step: MergeBase, context: Context) -> Appended | None:
    """Returns the commit of change rows that this run has made, if a merge takes these rows and no others."""
    appended = context.appended
    if appended is None or step.commits != 1 or step.start is None or step.start.snapshot != appended.after:
        return None
    return appended


def _locate_replaced_rows(changes: DataFrame, model: Model) -> DataFrame:
    """Returns the key and partition values of the base table's rows that the change rows `changes` replace."""
    places = [alias_as(value, part) for part, value in list_location_columns(model).items()]
    return changes.where(F.col(ACTION) != INSERT).selectExpr(*places)


def _replace_rows(
    context: Context,
    branch: Sequence[str],
    gone: _ReplacedRows,
    alive: DataFrame,
    summary: Mapping[str, str],
) -> None:
    """Deletes the rows `gone` from a branch of the base table by deletion vectors, and appends the rows `alive`.

    The base table is not shuffled. This takes half the time of a MERGE, whose outer join has to track which change has
    a matching row. If the commit of each row is known, so that the delete can exclude rows that are appended meanwhile,
    both commits are made at the same time. Then both have the entries `summary`, with the version up to which the table
    is merged; these hold once both commits are done.
    """

    def append_rows() -> None:
        writer = alive.writeTo(quote_name(*branch)).options(**build_summary_options(summary))
        perform_effect("base.merge.append", writer.append, f"write changed rows to {'.'.join(branch)}", SPARK)

    def delete_replaced(summary: Mapping[str, str], *conditions: Sql) -> None:
        near_by = write_nearby_condition(gone.find_bounds(), TARGET)
        if near_by != NOWHERE:
            _delete_rows(context, branch, gone, [near_by, *conditions], summary)

    base = context.state.base
    assert base is not None
    if base.sequence is None or not DELETE_ISOLATION.items() <= base.properties.items():
        delete_replaced({})
        append_rows()
        return
    came, at = quote_name(TARGET, COMMIT_ORDER), quote_number(base.sequence)
    with Parallel(context.spark, context.thresholds.engine) as background:
        background.submit_action(append_rows)
        delete_replaced(summary, fill_statement("coalesce({came} <= {at}, true)", came=came, at=at))


def _delete_rows(
    context: Context, branch: Sequence[str], gone: _ReplacedRows, where: Sequence[Sql], summary: Mapping[str, str]
) -> None:
    """Deletes the rows `gone` from a branch of the base table, with the entries `summary` in the commit's summary.

    `where` has conditions that all these rows meet, so that Iceberg can skip files.
    """
    pruned = build_lookup_settings(gone.count, context.thresholds.pruning)
    with override_settings(
        context.spark, {**build_join_settings(context.spark), **pruned, **build_summary_settings(summary)}
    ):
        on = build_key_conditions(context.model.config.primary_key)
        delete_matching("base.merge.delete", context, branch, RowMatch(gone.keys, on, where))
