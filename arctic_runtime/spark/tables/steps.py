"""The evaluator of steps: what each one does to the tables."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from typing_extensions import assert_never

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import effect
from arctic_runtime.errors import DataError
from arctic_runtime.ivm.rewrite.bounds import Bound, is_bounded
from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, TIMESTAMP, find_column, same_name
from arctic_runtime.model.key import key_text
from arctic_runtime.model.layout import (
    KEPT_METADATA,
    NEWEST_FORMAT,
    ROW_GROUP_PROPERTY,
    TARGET_PROPERTY,
    layout_text,
    node_count,
    row_group_bytes,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import KIND, LAYOUT, MERGED, MODEL_TABLE, PRIMARY_KEY
from arctic_runtime.model.state import BaseState, ChangeTableState, Stranger, TableState
from arctic_runtime.model.step import (
    AppendChanges,
    CreateBase,
    CreateChangeTable,
    DropBase,
    DropBranches,
    DropStranger,
    EvolveSchema,
    MergeBase,
    Mode,
    ReplaceView,
    Step,
)
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.model.version import Version, encode_versions
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.parallel import Parallel
from arctic_runtime.spark.engine.settings import settings
from arctic_runtime.spark.engine.statement import Sql, aliased, listed, name, number, statement, text
from arctic_runtime.spark.engine.statement import properties as property_list
from arctic_runtime.spark.refresh.events import examples
from arctic_runtime.spark.tables import views
from arctic_runtime.spark.tables.bounds import NOWHERE, Ranges, counted, is_scanned, near
from arctic_runtime.spark.tables.commit import (
    drop_branches,
    overwrite,
    perform_statement,
    said,
    said_by_session,
    swap_in,
    tips,
)
from arctic_runtime.spark.tables.diff import DELETE, FLAWS, INSERT, UPDATE, UPSERT, Shape
from arctic_runtime.spark.tables.evolve import evolve
from arctic_runtime.spark.tables.frames import (
    COMMIT_ORDER,
    FEW_KEYS,
    Unmerged,
    as_key,
    column,
    conformed,
    folded_rows,
    key_name,
    newest_changes,
    overlay,
    own_changes,
    read_table,
    uncompiled,
)
from arctic_runtime.thresholds import Thresholds

_TABLE_DEFAULTS = {
    **KEPT_METADATA,
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
    # A writer tries a dictionary for each column of each row group, and gives up where that grows larger. Of the many
    # small row groups here, trying Iceberg's 2 MiB takes a third of the time of a write and makes files no smaller.
    "write.parquet.dict-size-bytes": str(32 * 1024),
}
# What a delete must not find is told by its condition, and nobody else writes to its branch.
_ISOLATED = {"write.delete.isolation-level": "snapshot"}
# What is joined to a base moves to its nodes. A base that is partitioned as well as bucketed is not shuffled either.
_MOVED_TO_NODES = {"spark.sql.sources.v2.bucketing.shuffle.enabled": "true"}
JOINED_AS_IT_LIES = {
    **_MOVED_TO_NODES,
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
}
# Rows that are read in one part stay in it where they are left out by their keys: Spark would look at keys first.
_LEFT_OUT_IN_ONE_PART = {
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushDownLeftSemiAntiJoin"
}
PRUNING_KEYS = 10_000
"""Of more keys some are in every node, and Spark takes a second for a million of them to find that out."""

REWRITTEN_ROWS = 100_000
"""A base without partitions and with no more rows is written anew: one small commit, where a merge takes two."""

_ACTIONS = (INSERT, UPDATE, DELETE, UPSERT)
_ROWS, _NOTHING = "rows", "deletions of nothing"
"""What is counted besides rows of each action: all rows, and deletions of rows that were not there."""

_TARGET = "__arctic_t"
"""What a base is called where rows of it are deleted: inside a subquery a column goes before a table of its name."""


@dataclass(frozen=True)
class Appended:
    """A commit of change rows to a change table that was the snapshot `after`: how many there are of each action.

    `replaced` tells between what values the rows lie that they replace, where that was looked at and there are any.
    """

    after: int
    rows: dict[str, int]
    replaced: tuple[Bound, ...] | None = None


@dataclass(frozen=True)
class Context:
    """What every step needs: the session, the catalog, the model, what was observed, and this attempt's token and time.

    `appended` is the newest commit of the run.
    """

    spark: SparkSession
    reader: CatalogReader
    model: Model
    state: TableState
    token: str
    now: datetime.datetime
    appended: Appended | None = None

    @property
    def thresholds(self) -> Thresholds:
        return self.reader.thresholds


def perform(step: Step, context: Context) -> None:
    """Does one step that needs no more than the tables themselves; `append_changes` is the one that does."""
    match step:
        case DropStranger(stranger):
            perform_statement("relation.drop", context.spark, _drop_statement(stranger))
        case DropBase(table):
            perform_statement(
                "relation.drop", context.spark, statement("DROP TABLE IF EXISTS {of}", of=name(*table.parts))
            )
        case DropBranches(table, branches):
            drop_branches(context.spark, table, branches)
        case CreateChangeTable():
            _create_change_table(step, context)
        case EvolveSchema():
            evolve(step, context.spark, context.model.config.primary_key)
        case CreateBase():
            _create_base(step, context)
        case MergeBase():
            _merge_base(step, context)
        case ReplaceView():
            views.replace(context.spark, context.model, context.state, step)
        case AppendChanges():
            raise TypeError("append_changes performs this step: it needs the rows")
        case _:
            assert_never(step)


def append_changes(
    step: AppendChanges,
    context: Context,
    rows: DataFrame,
    shape: Shape,
    summary: Mapping[str, str],
    gathered: bool,
    confirm: Callable[[], None] | None,
) -> Appended:
    """Appends change rows, if the table still is as observed.

    `confirm` is called when the rows are written and before anybody sees them; it may raise to end the attempt.
    Rows that are `gathered` are in as many parts as their size needs; others are put together first. They are ordered
    by key, but for a first load, which is read as a whole.
    Rows under an action of `FLAWS` are never published: they end the attempt with a DataError that shows some.
    """
    seen = Observation()
    kinds = _kinds(_usual(step.mode, context.model), step.mode, context.model, shape)
    ranges = _ranges(context, shape)
    asked = [*_counts(kinds), *(ranges.asked() if ranges else ())]
    timed = rows.withColumn(TIMESTAMP, F.expr(_time(context.now)))
    parts = timed if gathered else timed.hint("rebalance")
    key = shape.key if step.mode != "create" else ()
    ordered = parts.sortWithinPartitions(*[column(part) for part in key]) if key else parts
    # Outermost: a stage that turns out to be empty is dropped with whatever it counted. What is counted costs much for
    # each kind, so only those are that rows usually are of.
    written = ordered.observe(seen, F.count(F.lit(1)).alias(_ROWS), *map(F.expr, asked))

    def write(branch: tuple[str, ...]) -> Appended:
        writer = written.writeTo(name(*branch)).options(**{"isolation-level": "serializable", **said(summary)})
        effect("commit.append", writer.append, f"append changes to {step.table}", SPARK)
        told = observed_counts(seen)
        counts = {kind: int(told.get(kind) or 0) for kind in kinds}
        is_whole = sum(counts.values()) == told.get(_ROWS)
        if not is_whole:
            counts = count_again(context, step, branch, shape)
        found = dict.fromkeys((*_ACTIONS, *FLAWS), 0) | counts
        if any(found[flaw] for flaw in FLAWS):
            raise _flawed(context, branch, shape, found)
        if confirm is not None:
            confirm()
        replaced = ranges.told(told) if ranges is not None and is_whole else None
        return Appended(step.expected, {action: found[action] for action in _ACTIONS}, replaced)

    return swap_in(context.spark, context.reader, step.table, step.expected, context.token, write)


def observed_counts(seen: Observation) -> dict[str, Any]:
    """What was observed while rows were written; empty where a server that is busy does not tell."""
    return dict(seen.get)


def _ranges(context: Context, shape: Shape) -> Ranges | None:
    """Between what the rows lie that change rows replace, where a base is asked for them next."""
    base = context.state.base
    if base is None or context.model.config.merge == "on_read" or is_scanned(base.rows):
        return None
    values = {
        part: (value, kept.type)
        for part, value in _told_places(context.model).items()
        if (kept := find_column(shape.columns, part)) and is_bounded(kept.type)
    }
    return Ranges(values, statement("{action} <> {kind}", action=name(ACTION), kind=text(INSERT)))


def count_again(context: Context, step: AppendChanges, branch: Sequence[str], shape: Shape) -> dict[str, int]:
    """Counts the rows of every kind that were just appended to a branch; none where nothing was."""
    spark = context.spark
    (tip,) = tips(spark, step.table, branch[-1].removeprefix("branch_")).values()
    if tip == step.expected:
        return {}
    reader = spark.read.option("start-snapshot-id", str(step.expected)).option("end-snapshot-id", str(tip))
    rows = reader.table(name(*step.table.parts))
    counts = _counts(_kinds((*_ACTIONS, *FLAWS), step.mode, context.model, shape))
    return {str(kind): int(count) for kind, count in rows.agg(*map(F.expr, counts)).collect()[0].asDict().items()}


def _usual(mode: Mode, model: Model) -> tuple[str, ...]:
    """The actions of all rows of most runs."""
    if mode == "create":
        return (INSERT,)
    return (UPSERT, DELETE) if mode == "incremental" and model.config.changelog == "input" else (INSERT, UPDATE, DELETE)


def _kinds(actions: Sequence[str], mode: Mode, model: Model, shape: Shape) -> dict[str, Sql]:
    """Of what kind a row is: its action; where rows are looked up, one that was not there is not what is deleted."""
    is_one = "{action} = {kind}"
    kinds = {kind: statement(is_one, action=name(ACTION), kind=text(kind)) for kind in actions}
    is_looked_up = model.config.changelog == "lookup" or mode != "incremental"
    if DELETE in kinds and is_looked_up and shape.before_type is not None:
        parts = {"is_one": kinds[DELETE], "before": name(BEFORE)}
        kinds[_NOTHING] = statement("{is_one} AND {before} IS NULL", **parts)
        kinds[DELETE] = statement("{is_one} AND {before} IS NOT NULL", **parts)
    return kinds


def _counts(kinds: Mapping[str, Sql]) -> list[Sql]:
    return [counted(is_one, kind) for kind, is_one in kinds.items()]


def _time(now: datetime.datetime) -> Sql:
    """When a change row happened, or the time of the run where that is not known."""
    micros = (now - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
    run = uncompiled(statement("timestamp_micros({micros})", micros=number(micros)), name(ACTION))
    return statement("coalesce({own}, {run})", own=name(TIMESTAMP), run=run)


def _flawed(context: Context, branch: Sequence[str], shape: Shape, found: Mapping[str, int]) -> DataError:
    flaw = next(flaw for flaw in FLAWS if found[flaw])
    rows = context.spark.table(name(*branch)).where(F.col(ACTION) == flaw)
    shown = [*shape.key, *shape.not_null] if flaw == "!null column" else shape.key
    example = rows.select(*[column(part) for part in dict.fromkeys(shown)]).distinct().limit(3).collect()
    named = ", ".join(dict.fromkeys(shown)) or "(none: the query must give one row)"
    checks = "".join(f"  check: {check}\n" for check in shape.checks) if flaw == "!broken check" else ""
    return DataError(
        f"{context.model.table}: {found[flaw]} row(s) of the query with a {flaw[1:]}; nothing was written.\n"
        f"  column: {named}\n{checks}{examples(example)}"
        "  expected: a primary key without nulls, once per row, and nothing that the contract forbids\n"
        "  what to do: repair or filter the rows in the query, or declare the columns that make a row unique"
    )


def _create_change_table(step: CreateChangeTable, context: Context) -> None:
    model = context.model
    shape = Shape(step.columns, model.config.primary_key, (), step.sequence_type)
    fields = [F.lit(None).cast(kept.type).alias(kept.name) for kept in step.columns]
    tail = [
        F.lit(None).cast("string").alias(ACTION),
        F.lit(None).cast("timestamp").alias(TIMESTAMP),
        F.lit(None).cast(step.sequence_type).alias(SEQUENCE),
    ]
    before = [F.lit(None).cast(shape.before_type).alias(BEFORE)] if shape.before_type else []
    empty = context.spark.range(0).select(*fields, *tail, *before)
    lookups = {ROW_GROUP_PROPERTY: str(row_group_bytes(0))}
    properties = {**lookups, **_properties(model, "changes"), MODEL_TABLE: str(model.table)}
    _create("changes.create", context, step.table, empty, properties, (), {})


def _create_base(step: CreateBase, context: Context) -> None:
    model, spark = context.model, context.spark
    assert context.state.changes is not None
    changes = read_table(spark, model.table.changes, step.version.snapshot, context.state.changes.formerly)
    rows = folded_rows(spark, model, context.state.changes, step.version.snapshot)
    transforms = (*model.config.partition_by, *_node_transform(model, _node_count(changes, step.bytes, context)))
    laid_out = _laid_out(rows, model, transforms)
    target = {TARGET_PROPERTY: str(model.config.target_file_bytes)}
    sizes = {**target, ROW_GROUP_PROPERTY: str(row_group_bytes(step.bytes))}
    own = {**sizes, **_ISOLATED, **_properties(model, "base"), **_format(model)}
    properties = {**own, LAYOUT: layout_text(model.config)}
    summary = merged_to(step.version)
    _create("base.create", context, step.table, laid_out, properties, transforms, summary, step.replaces)
    _write_order(context, step.table)


def _create(
    effect_name: str,
    context: Context,
    table: TableName,
    rows: DataFrame,
    properties: Mapping[str, str],
    transforms: Sequence[Transform],
    summary: Mapping[str, str],
    replaces: bool = False,
) -> None:
    """A table in one commit; by a statement, since the DataFrame API knows no truncate and quotes no column here."""
    spark, view = context.spark, f"arctic_create_{context.token}"
    create = statement(
        "CREATE {or_replace}TABLE {table} USING iceberg {partitioned}TBLPROPERTIES ({properties}) "
        "AS SELECT * FROM {view}",
        or_replace=Sql("OR REPLACE " if replaces else ""),
        table=name(*table.parts),
        partitioned=_partitioned(transforms),
        properties=property_list(properties.items()),
        view=name(view),
    )
    rows.createOrReplaceTempView(view)
    try:
        with settings(spark, {**said_by_session(summary), "spark.sql.iceberg.distribution-mode": "none"}):
            effect(effect_name, lambda: spark.sql(create), f"create {table}", SPARK)
    finally:
        spark.catalog.dropTempView(view)


def looking_up(keys: int) -> dict[str, str]:
    """Settings for looking up rows by about so many keys: few rule out nodes, many move to the nodes of their rows."""
    is_pruned = {} if keys <= PRUNING_KEYS else {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}
    return {**is_pruned, **(_MOVED_TO_NODES if keys > FEW_KEYS else {})}


def _drop_statement(stranger: Stranger) -> Sql:
    of = name(*stranger.name.parts)
    if stranger.kind == "view":
        return statement("DROP VIEW IF EXISTS {of}", of=of)
    return statement("DROP TABLE IF EXISTS {of}", of=of)


def _properties(model: Model, kind: str) -> dict[str, str]:
    return {
        **_TABLE_DEFAULTS,
        **model.config.tblproperties,
        KIND: kind,
        PRIMARY_KEY: key_text(model.config.primary_key),
    }


def _node_count(changes: DataFrame, size: int, context: Context) -> int:
    """The nodes of each partition of a base made of `changes`, which have so many bytes together."""
    config = context.model.config
    parallelism = int(context.spark.conf.get("spark.sql.shuffle.partitions") or 1)
    nodes = config.nodes or node_count(size, parallelism, config.node_bytes)
    if config.nodes or nodes == 1 or not config.partition_by:
        return nodes
    values = [transform_value(context.model.table.catalog, transform) for transform in config.partition_by]
    partitions = changes.select(*values).distinct().count()
    return node_count(size // max(1, partitions), parallelism, config.node_bytes)


def _format(model: Model) -> dict[str, str]:
    """The base's format; before version 3 deletes are files of positions, here one for each file that has any."""
    version = model.config.format_version
    return {
        "format-version": str(version),
        **({} if version == NEWEST_FORMAT else {"write.delete.granularity": "file"}),
    }


def _node_transform(model: Model, nodes: int) -> tuple[Transform, ...]:
    return (Transform("bucket", model.config.hash_key, nodes),) if model.config.hash_key else ()


def _partitioned(transforms: Sequence[Transform]) -> Sql:
    if not transforms:
        return Sql("")
    return statement("PARTITIONED BY ({transforms}) ", transforms=listed([_transform(part) for part in transforms]))


def _transform(transform: Transform) -> Sql:
    source = name(transform.column)
    if transform.unit == "identity":
        return source
    if transform.parameter is None:
        return statement("{unit}({c})", unit=name(transform.unit), c=source)
    return statement("{unit}({n}, {c})", unit=name(transform.unit), n=number(transform.parameter), c=source)


def _laid_out(rows: DataFrame, model: Model, transforms: Sequence[Transform]) -> DataFrame:
    """Rows put together by partition and node, and sorted, as the base's files are to be."""
    if not transforms:
        return rows
    values = [transform_value(model.table.catalog, transform) for transform in transforms]
    order = [column(part) for part in (*model.config.sort_key, *model.config.primary_key)]
    return rows.repartition(*values).sortWithinPartitions(*values, *order)


def transform_value(catalog: str, transform: Transform) -> Expression:
    source = column(transform.column)
    if transform.unit == "identity":
        return source
    function = name(catalog, "system", transform.unit)
    arguments = [source] if transform.parameter is None else [F.lit(transform.parameter), source]
    return F.call_function(function, *arguments)


def _write_order(context: Context, table: TableName) -> None:
    key = context.model.config.sort_key
    if key:
        order = listed([name(part) for part in key])
        template = "ALTER TABLE {table} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY {order}"
        perform_statement("base.write_order", context.spark, statement(template, table=name(*table.parts), order=order))


def merged_to(version: Version) -> dict[str, str]:
    """What the summary of a base's snapshot says of the version that it is merged to."""
    return {MERGED: encode_versions({"changes": version})}


def _merge_base(step: MergeBase, context: Context) -> None:
    """Merges in what changed, in one commit or on a branch that becomes main; doing it again gives the same table."""
    model, spark, base, changes = context.model, context.spark, context.state.base, context.state.changes
    assert base is not None
    assert changes is not None
    appended = own_changes(spark, model.table.changes, changes, step.start, step.end)
    if base.rows <= REWRITTEN_ROWS and not model.config.partition_by:
        # In one part, so that no row has to be moved to meet its change.
        old = read_table(spark, step.table, step.expected, base.formerly).coalesce(1)
        came = appended.coalesce(1)
        rows = overlay(old, Unmerged(came, step.commits, False), model.config.primary_key, base.columns).coalesce(1)
        order = [column(part) for part in (*model.config.sort_key, *model.config.primary_key)]
        ordered = rows.sortWithinPartitions(*order) if order else rows
        with settings(spark, _LEFT_OUT_IN_ONE_PART):
            overwrite(ordered, step.table, step.expected, merged_to(step.end))
        return
    # Within one commit an inserted key is one that was not there; over several it may have been deleted before.
    gone = appended.where(F.col(ACTION) != INSERT) if step.commits == 1 and changes.keeps(step.start) else appended
    newest = newest_changes(appended, model.config.primary_key, step.commits)
    alive = conformed(newest.where(F.col(ACTION) != DELETE), base.columns)
    count, known = _replaced(step, context, changes)
    where = partial(near, _places(appended, model), count, base.rows, _TARGET, known)
    sought = _Sought(gone.select(*as_key(model.config.primary_key)), count, where)

    def merge(branch: Sequence[str]) -> None:
        _replace_rows(context, base, branch, sought, alive, merged_to(step.end))

    swap_in(spark, context.reader, step.table, step.expected, context.token, merge)


@dataclass(frozen=True)
class _Sought:
    """Rows of a base: their keys, about how many there are, and what gives a condition that is true for all of them."""

    keys: DataFrame
    count: int
    where: Callable[[], Sql]


def _replaced(step: MergeBase, context: Context, changes: ChangeTableState) -> tuple[int, tuple[Bound, ...] | None]:
    """About how many rows a merge replaces, and between what values they lie if this run has just found that out."""
    told = context.appended
    if told is None or step.commits != 1 or step.start is None or step.start.snapshot != told.after:
        return changes.rows_after(step.start), None
    return sum(told.rows.values()) - told.rows[INSERT], told.replaced


def _places(changes: DataFrame, model: Model) -> DataFrame:
    """Where the rows lie that changes replace."""
    places = [aliased(value, part) for part, value in _told_places(model).items()]
    return changes.where(F.col(ACTION) != INSERT).selectExpr(*places)


def _told_places(model: Model) -> dict[str, Sql]:
    """What a change row tells of where the row lies that it replaces: its key, and what gives its partition."""
    key = model.config.primary_key
    rest = [of.column for of in model.config.partition_by if not any(same_name(of.column, part) for part in key)]
    return {part: name(part) for part in key} | {part: name(BEFORE, part) for part in rest}


def _replace_rows(
    context: Context,
    base: BaseState,
    branch: Sequence[str],
    gone: _Sought,
    alive: DataFrame,
    summary: Mapping[str, str],
) -> None:
    """Deletion vectors for what changed, and what there is now, without a shuffle of the base.

    That takes half the time of a MERGE, whose outer join has to remember for every change whether a row was found for
    it. Both are done at once where rows tell by which commit they came, so that none is deleted that comes meanwhile;
    either commit then says what the base is merged to, and it is once the later one is there.
    """

    def append() -> None:
        writer = alive.writeTo(name(*branch)).options(**said(summary))
        effect("base.merge.append", writer.append, f"write what changed to {'.'.join(branch)}", SPARK)

    def delete(summary: Mapping[str, str], *conditions: Sql) -> None:
        near_by = gone.where()
        if near_by != NOWHERE:
            _delete_rows(context, branch, gone, listed([near_by, *conditions], " AND "), summary)

    if base.sequence is None or not _ISOLATED.items() <= base.properties.items():
        delete({})
        append()
        return
    came, at = name(_TARGET, COMMIT_ORDER), number(base.sequence)
    with Parallel(context.spark) as beside:
        beside.begin(append)
        delete(summary, statement("coalesce({came} <= {at}, true)", came=came, at=at))


def _delete_rows(
    context: Context, branch: Sequence[str], gone: _Sought, where: Sql, summary: Mapping[str, str]
) -> None:
    """Deletes the rows that are sought; all of them are `where` a condition is true."""
    spark, view = context.spark, f"arctic_merge_{context.token}"
    key = context.model.config.primary_key
    on = [statement("{c} = {k}", c=name(_TARGET, part), k=name(key_name(i))) for i, part in enumerate(key)]
    delete = statement(
        "DELETE FROM {table} AS {target} WHERE {where} AND EXISTS (SELECT 1 FROM {view} WHERE {on})",
        table=name(*branch),
        target=name(_TARGET),
        where=where,
        view=name(view),
        on=listed(on, " AND ") if on else Sql("true"),
    )
    gone.keys.createOrReplaceTempView(view)
    try:
        with settings(spark, {**JOINED_AS_IT_LIES, **looking_up(gone.count), **said_by_session(summary)}):
            perform_statement("base.merge.delete", spark, delete)
    finally:
        spark.catalog.dropTempView(view)
