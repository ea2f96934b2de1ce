"""The base written anew with its changes merged in, node by node and without moving it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.partial_progress import observe_partial_progress
from arctic_runtime.effects import effect
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.columns import ACTION, OWN_PREFIX, Column
from arctic_runtime.model.compaction import BucketRange, RewriteBase
from arctic_runtime.model.properties import ATTEMPT, REWRITTEN
from arctic_runtime.model.shape import DELETE
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.settings import settings
from arctic_runtime.spark.engine.statement import name, number, statement
from arctic_runtime.spark.tables.commit import clear_away, merged_to, perform_statement, publish_branch, said, unmoved
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.create import transform_value
from arctic_runtime.spark.tables.frames import all_of, column, conformed, newest_changes, own_changes
from arctic_runtime.spark.tables.merge import JOINED_AS_IT_LIES

CHANGED = f"{OWN_PREFIX}changed"
"""What the action of a row's change is called where both are side by side; with a number, a column of the change."""


def rewrite_base(step: RewriteBase, context: Context) -> None:
    """Writes the parts that remain of a step, then makes them the table; reports each part to the context.

    Where all nodes are one part this is one commit, which Iceberg compares with what was observed.
    Raises CommitConflict where the base has moved on; what was done is lost then.
    """
    if len(step.ranges) == 1:
        _write(step, step.ranges[0], context, step.table.parts, unmoved(step.expected) | said(merged_to(step.end)))
        context.tell(_done(step, step.ranges[0]))
    else:
        _rewrite_by_parts(step, context)


def _rewrite_by_parts(step: RewriteBase, context: Context) -> None:
    """A part stays done on the branch whatever comes after it.

    Doing one twice, also by two processes at a time, gives the same rows: it takes the place of what is in its nodes,
    and what is merged already may be merged again.
    """
    spark, branch = context.spark, step.table.branch(step.branch)
    create = statement(
        "ALTER TABLE {table} CREATE BRANCH IF NOT EXISTS {branch} AS OF VERSION {v}",
        table=name(*step.table.parts),
        branch=name(step.branch),
        v=number(step.expected),
    )
    perform_statement("base.rewrite.branch", spark, create)
    for part in step.remaining:
        merged = merged_to(step.end) if part == step.remaining[-1] else {}
        _write(step, part, context, branch, said({ATTEMPT: step.branch, REWRITTEN: str(part), **merged}))
        context.tell(_done(step, part))
    try:
        _check_all_done(step, context)
        publish_branch(context.attempt, step.table, step.branch, step.expected, step.branch, is_shared=True)
    except CommitConflict:
        clear_away(context.attempt, step.table, step.branch)
        raise
    clear_away(context.attempt, step.table, step.branch)


def _done(step: RewriteBase, part: BucketRange) -> str:
    return f"  nodes {part} of {step.table} are done, part {step.ranges.index(part) + 1} of {len(step.ranges)}"


def _check_all_done(step: RewriteBase, context: Context) -> None:
    """Raises CommitConflict where a part is not on the branch: it was dropped meanwhile, with what was on it."""
    begun = observe_partial_progress(context.reader, step.table)
    done = next((one.done for one in begun if one.branch == step.branch), frozenset())
    lost = [str(part) for part in step.ranges if part not in done]
    if lost:
        raise CommitConflict(
            f"{step.table}: the branch {step.branch} lacks the rewritten buckets {', '.join(lost)}.\n"
            "  what to do: run `arctic compact` again"
        )


def _write(step: RewriteBase, part: BucketRange, context: Context, to: Sequence[str], more: Mapping[str, str]) -> None:
    """The nodes of a part in the place of what is in them, in one commit."""
    rows, is_within = _merged(step, part, context, to), _within(step, part, context)
    options = {
        "distribution-mode": "none",
        "use-table-distribution-and-ordering": "false",
        # Rows of other nodes are among those of a node only where these had no files, unless partitions lie in it too.
        "fanout-enabled": "true" if len(step.transforms) == 1 else "false",
        "output-spec-id": str(step.spec),
        **more,
    }
    writer = rows.writeTo(name(*to)).options(**options)
    with settings(context.spark, JOINED_AS_IT_LIES):
        effect(
            "base.rewrite.write", lambda: writer.overwrite(is_within), f"write nodes {part} of {step.table} anew", SPARK
        )


def _merged(step: RewriteBase, part: BucketRange, context: Context, of: Sequence[str]) -> DataFrame:
    """The rows of a part's nodes after the merge, each in the task of its node.

    They are read where they are written, with the columns that the base has now.
    """
    assert context.state.base is not None
    columns = context.state.base.columns
    base = context.spark.table(name(*of)).where(_within(step, part, context))
    fitted = conformed(_newest(step, part, context), (*columns, Column(ACTION, "string")))
    changes = fitted.toDF(*[f"{CHANGED}{place}" for place in range(len(columns))], CHANGED)
    joined = _met(base, changes, step, columns, context)
    alive = joined.where(F.col(CHANGED).isNull() | (F.col(CHANGED) != DELETE))
    is_changed = F.col(CHANGED).isNotNull()
    merged = [
        F.when(is_changed, F.col(f"{CHANGED}{place}")).otherwise(column(kept.name)).alias(kept.name)
        for place, kept in enumerate(columns)
    ]
    return _ordered(alive.select(*merged), step, context.model.table.catalog)


def _newest(step: RewriteBase, part: BucketRange, context: Context) -> DataFrame:
    """The newest change of every key that belongs into a part."""
    changes = context.state.changes
    assert changes is not None
    appended = own_changes(context.spark, context.model.table.changes, changes, step.start, step.end)
    found = appended.where(_within(step, part, context))
    return newest_changes(found, context.model.config.primary_key, step.commits)


def _met(
    base: DataFrame, changes: DataFrame, step: RewriteBase, columns: Sequence[Column], context: Context
) -> DataFrame:
    """Rows and changes side by side; where they meet by hash, the side with fewer rows is the one that is held."""
    places = {kept.name.lower(): place for place, kept in enumerate(columns)}
    pairs = [column(part) == F.col(f"{CHANGED}{places[part.lower()]}") for part in context.model.config.primary_key]
    assert context.state.base is not None
    if step.meeting == "sort":
        return base.hint("merge").join(changes, all_of(pairs), "full_outer")
    if step.rows > context.state.base.rows:
        return base.hint("shuffle_hash").join(changes, all_of(pairs), "full_outer")
    return base.join(changes.hint("shuffle_hash"), all_of(pairs), "full_outer")


def _within(step: RewriteBase, part: BucketRange, context: Context) -> Expression:
    """Whether a row, of the base or of the changes, belongs into a part; true where that is all of the table."""
    if len(step.ranges) == 1:
        return F.lit(True)
    bucket = transform_value(context.model.table.catalog, step.transforms[-1])
    return (bucket >= part.first) & (bucket <= part.last)


def _ordered(rows: DataFrame, step: RewriteBase, catalog: str) -> DataFrame:
    """Where partitions lie in a node, rows come partition by partition, so that one file at a time is written."""
    values = [transform_value(catalog, of) for of in step.transforms] if len(step.transforms) > 1 else []
    order = [*values, *map(column, step.order)]
    return rows.sortWithinPartitions(*order) if order else rows
