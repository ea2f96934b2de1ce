"""Rewrites all rows of a base table, merged with the unmerged changes, in parts, without a shuffle of the base table.

A part is a range of buckets, by which the base table is partitioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.manifests import observe_partial_progress
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.columns import ACTION, OWN_PREFIX, Column
from arctic_runtime.model.files.compaction import BucketRange, RewriteBase
from arctic_runtime.model.properties import ATTEMPT, REWRITTEN
from arctic_runtime.model.shape import DELETE
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.tables.commit import (
    WriterBranch,
    build_base_summary,
    build_isolation_options,
    build_summary_options,
    clear_away,
    create_branch,
    publish_branch,
)
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.create import transform_value
from arctic_runtime.spark.tables.merge import build_join_settings
from arctic_runtime.spark.tables.rows.frames import (
    combine_all,
    conform_frame,
    read_own_changes,
    select_newest_changes,
    to_column,
)

CHANGED = f"{OWN_PREFIX}changed"
"""Name of the column with a change row's action after the join with the base table.

Followed by a column's position, it is the name of the change row's value of that column."""


def rewrite_base(step: RewriteBase, context: Context) -> None:
    """Writes the remaining parts of a base rewrite, then publishes all parts; calls `context.tell` after each part.

    If the table is one part, the rewrite is one commit, for which Iceberg checks that the base table is unchanged.
    Raises CommitConflict if the base table has changed; the written parts are then lost.
    """
    if len(step.ranges) == 1:
        summary = build_base_summary(step.end, context.state.changes)
        options = build_isolation_options(step.expected) | build_summary_options(summary)
        _write_part(step, step.ranges[0], context, step.table.parts, options)
        context.tell(_format_progress(step, step.ranges[0]))
    else:
        _rewrite_by_parts(step, context)


def _rewrite_by_parts(step: RewriteBase, context: Context) -> None:
    """Writes the remaining parts to a branch, one commit each, then publishes the branch.

    Written parts stay on the branch after a failure, so that a later rewrite continues from them. A part may be written
    twice, even by two processes at the same time, since both replace the rows of its buckets by the same rows.
    """
    branch = step.table.to_branch_parts(step.branch)
    create_branch("base.rewrite.branch", context.attempt, step.table, step.branch, step.expected, may_exist=True)
    for part in step.remaining:
        merged = build_base_summary(step.end, context.state.changes) if part == step.remaining[-1] else {}
        _write_part(
            step, part, context, branch, build_summary_options({ATTEMPT: step.branch, REWRITTEN: str(part), **merged})
        )
        context.tell(_format_progress(step, part))
    try:
        _check_all_done(step, context)
        shared = WriterBranch(step.table, step.branch, step.expected, writer=step.branch, is_shared=True)
        publish_branch(context.attempt, shared)
    except CommitConflict:
        clear_away(context.attempt, step.table, step.branch)
        raise
    clear_away(context.attempt, step.table, step.branch)


def _format_progress(step: RewriteBase, part: BucketRange) -> str:
    return f"  nodes {part} of {step.table} are done, part {step.ranges.index(part) + 1} of {len(step.ranges)}"


def _check_all_done(step: RewriteBase, context: Context) -> None:
    """Raises CommitConflict if a part is missing on the branch, which means that the branch was dropped meanwhile."""
    begun = observe_partial_progress(context.reader, step.table)
    done = next((one.done for one in begun if one.branch == step.branch), frozenset())
    lost = [str(part) for part in step.ranges if part not in done]
    if lost:
        raise CommitConflict(
            f"{step.table}: the branch {step.branch} lacks the rewritten buckets {', '.join(lost)}.",
            fix="run `arctic compact` again",
        )


def _write_part(
    step: RewriteBase, part: BucketRange, context: Context, to: Sequence[str], more: Mapping[str, str]
) -> None:
    """Replaces the files in the buckets of a part by files with merged rows, in one commit to the table or branch `to`.

    `more` are further options of the DataFrame writer.
    """
    rows, is_within = _merge_part(step, part, context, to), _build_part_condition(step, part, context)
    options = {
        "distribution-mode": "none",
        "use-table-distribution-and-ordering": "false",
        # With buckets alone, a task has rows of other nodes if those had no files; with partitions, rows are sorted.
        "fanout-enabled": "true" if len(step.transforms) == 1 else "false",
        "output-spec-id": str(step.spec),
        **more,
    }
    writer = rows.writeTo(quote_name(*to)).options(**options)
    with override_settings(context.spark, build_join_settings(context.spark)):
        perform_effect(
            "base.rewrite.write", lambda: writer.overwrite(is_within), f"rewrite nodes {part} of {step.table}", SPARK
        )


def _merge_part(step: RewriteBase, part: BucketRange, context: Context, base_parts: Sequence[str]) -> DataFrame:
    """Computes the rows of a part after the merge with unmerged changes, with the base table's current columns.

    Each row stays in the task of its bucket. `base_parts` is the name of the table or branch to read from.
    """
    assert context.state.base is not None
    columns = context.state.base.columns
    base = context.spark.table(quote_name(*base_parts)).where(_build_part_condition(step, part, context))
    fitted = conform_frame(_read_newest_changes(step, part, context), (*columns, Column(ACTION, "string")))
    changes = fitted.toDF(*[f"{CHANGED}{place}" for place in range(len(columns))], CHANGED)
    joined = _join_changes(base, changes, step, columns, context)
    alive = joined.where(F.col(CHANGED).isNull() | (F.col(CHANGED) != DELETE))
    is_changed = F.col(CHANGED).isNotNull()
    merged = [
        F.when(is_changed, F.col(f"{CHANGED}{place}")).otherwise(to_column(column_kept.name)).alias(column_kept.name)
        for place, column_kept in enumerate(columns)
    ]
    return _sort_by_partition(alive.select(*merged), step, context.model.table.catalog)


def _read_newest_changes(step: RewriteBase, part: BucketRange, context: Context) -> DataFrame:
    """Reads the newest unmerged change row of each key in the buckets of a part."""
    changes = context.state.changes
    assert changes is not None
    appended = read_own_changes(context.spark, context.model.table.changes, changes, step.start, step.end)
    part_changes = appended.where(_build_part_condition(step, part, context))
    return select_newest_changes(part_changes, context.model.config.primary_key, step.commits)


def _join_changes(
    base: DataFrame, changes: DataFrame, step: RewriteBase, columns: Sequence[Column], context: Context
) -> DataFrame:
    """Joins base rows and change rows on the key, by a full outer join.

    `step.meeting` chooses a sort-merge join or a shuffled hash join; in a hash join, the side with fewer rows is
    hashed.
    """
    places = {column_kept.name.lower(): place for place, column_kept in enumerate(columns)}
    pairs = [to_column(part) == F.col(f"{CHANGED}{places[part.lower()]}") for part in context.model.config.primary_key]
    assert context.state.base is not None
    if step.meeting == "sort":
        return base.hint("merge").join(changes, combine_all(pairs), "full_outer")
    if step.rows > context.state.base.rows:
        return base.hint("shuffle_hash").join(changes, combine_all(pairs), "full_outer")
    return base.join(changes.hint("shuffle_hash"), combine_all(pairs), "full_outer")


def _build_part_condition(step: RewriteBase, part: BucketRange, context: Context) -> Expression:
    """Builds the condition that a row of the base table or a change row is in the buckets of a part.

    It is true if the table is one part.
    """
    if len(step.ranges) == 1:
        return F.lit(True)
    bucket = transform_value(context.model.table.catalog, step.transforms[-1])
    return (bucket >= part.first) & (bucket <= part.last)


def _sort_by_partition(rows: DataFrame, step: RewriteBase, catalog: str) -> DataFrame:
    """Sorts rows within tasks by the step's order; if the table has partitions, by partition and bucket before that.

    So a task writes one file at a time.
    """
    values = [transform_value(catalog, transform) for transform in step.transforms] if len(step.transforms) > 1 else []
    order = [*values, *map(to_column, step.order)]
    return rows.sortWithinPartitions(*order) if order else rows
