"""Reads a model's relations as DataFrames: rows at a version, change rows, and the newest change row of each key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from arctic_runtime.errors import SourceError
from arctic_runtime.model.baseline import Baseline
from arctic_runtime.model.columns import (
    ACTION,
    POSITION,
    SEQUENCE,
    TIMESTAMP,
    Column,
    Names,
    strip_change_columns,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import REPAIRED
from arctic_runtime.model.shape import INSERT
from arctic_runtime.model.state import ChangeTableState, SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.model.version import Window as Span
from arctic_runtime.plan.refresh.schema import to_stored_type
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, quote_name, type_name
from arctic_runtime.sql.types import format_array_type, format_struct_type, map_text
from arctic_runtime.thresholds import PruningThresholds

COMMIT_ORDER = "_last_updated_sequence_number"
_ROW_ID = "_row_id"
NO_OTHERS: Mapping[int, Names] = {}
NULL = Sql("NULL")
_ROWS = Sql("__arctic_rows")

Hold = Callable[[DataFrame], DataFrame]
"""Marks a DataFrame that is read several times, so that it is computed once."""


@dataclass(frozen=True)
class Unmerged:
    """The change rows that are not merged into the base table yet, and the number of their commits.

    If they are `few`, their keys are broadcast in joins.
    """

    rows: DataFrame
    commits: int
    few: bool


@dataclass(frozen=True)
class StoredRows:
    """The stored rows of some keys: rows of the base table, and the newest unmerged change row of each key.

    `base` is None if there is no base table, `unmerged` if all change rows are merged.
    """

    base: DataFrame | None = None
    unmerged: DataFrame | None = None


@dataclass(frozen=True)
class Keys:
    """Keys for lookups in a table, in columns named as by `as_key`; a key may occur more than once.

    If they are `few`, they are broadcast; otherwise they are shuffled to the buckets of the table, after a `rebalance`
    that keeps Spark from shuffling the table instead. `near` is a condition that all rows of the table with these keys
    meet.
    """

    rows: DataFrame
    few: bool
    near: Sql

    def select_rows(self, table: DataFrame, key: Sequence[str]) -> DataFrame:
        """Selects the rows of `table` with one of these keys; `key` are its key columns."""
        hinted = self.rows.hint("broadcast") if self.few else self.rows.hint("rebalance").hint("shuffle_hash")
        nearby = table.where(self.near)
        return nearby.join(hinted, match_key(nearby, key), "left_semi")


def to_column(column_name: str) -> Expression:
    """Returns the column with exactly this name, in which dots and other special characters are allowed."""
    return F.col(quote_name(column_name))


def query_rows(rows: DataFrame, query: Callable[[Sql], Sql]) -> DataFrame:
    """Runs a SQL query over `rows`, as one statement.

    `query` is called with the relation's name for the rows, and returns the query.
    """
    text = fill_statement("SELECT * FROM {relation}", relation=query(_ROWS))
    template = text.replace("{", "{{").replace("}", "}}").replace(_ROWS, "{rows}")
    # PySpark drops its temporary view of the rows afterwards, and with it the cache of the same DataFrame.
    return rows.sparkSession.sql(template, rows=rows.select("*"))


def list_frame_columns(frame: DataFrame) -> tuple[Column, ...]:
    """Lists a frame's columns with the types that an Iceberg table stores for them."""
    return tuple(Column(field.name, to_stored_type(type_of(field.dataType))) for field in frame.schema.fields)


def type_of(kind: DataType) -> str:
    """Formats a PySpark type as a text that `sql.types` reads; PySpark's own text is ambiguous for some field names."""
    match kind:
        case StructType(fields=fields):
            return format_struct_type((field.name, type_of(field.dataType)) for field in fields)
        case ArrayType(elementType=element):
            return format_array_type(type_of(element))
        case MapType(keyType=key, valueType=value):
            return map_text(type_of(key), type_of(value))
        case _:
            return kind.simpleString()


def conform_frame(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Selects `columns` from a frame, cast to their types; columns that the frame lacks are null.

    It is needed since an old snapshot is read with the columns that the table had at its time.
    """
    fields = {field.name.lower(): field for field in frame.schema.fields}
    return frame.selectExpr(*[_conform_column(fields.get(wanted.name.lower()), wanted) for wanted in columns])


def _conform_column(field: StructField | None, wanted: Column) -> Sql:
    if field is not None and type_of(field.dataType) == wanted.type:
        return alias_as(quote_name(field.name), wanted.name)
    return cast_as(NULL if field is None else quote_name(field.name), wanted.type, wanted.name)


def cast_as(value: Sql, kind: str, alias: str) -> Sql:
    """Builds a cast of a value to the type `kind`, as a column named `alias`.

    Like all expressions that are built for each column of a table, it is a SQL text for `selectExpr`: the DataFrame API
    needs three calls to Spark for each part of an expression, and calls are much of a small run's time.
    """
    return fill_statement(
        "CAST({value} AS {kind}) AS {alias}", value=value, kind=type_name(kind), alias=quote_name(alias)
    )


def hide_constant(value: Sql, text: Sql) -> Sql:
    """Builds an expression with the constant `value`, which differs between runs, hidden from Spark's code generation.

    Spark writes numbers and times into its generated code, and would compile it again for each run. It can't do so for
    an element of an array whose index depends on the row. `text` is a text column of the rows that is never null.
    """
    return fill_statement("get(array({value}), least(length({text}), 0))", value=value, text=text)


def combine_all(conditions: Sequence[Expression]) -> Expression:
    """Combines conditions by AND; true without any, as for a key without columns."""
    return reduce(and_, conditions, F.lit(True))


def combine_any(conditions: Sequence[Expression]) -> Expression:
    """Combines conditions by OR; false without any.

    It costs Spark less than the negation of `combine_all`: each round of its optimizer resolves only one term of that,
    so a table of 150 columns would need 150 rounds.
    """
    return reduce(or_, conditions, F.lit(False))


def read_table(
    spark: SparkSession, table: TableName, snapshot: int, old_column_names: Mapping[int, Names] = NO_OTHERS
) -> DataFrame:
    """Reads a table's rows at a snapshot, with the columns that the table had at that time.

    Columns that were renamed since get their current names; `old_column_names` has, by snapshot id, the old name of
    each.
    """
    rows = spark.read.option("versionAsOf", str(snapshot)).table(quote_name(*table.parts))
    then = old_column_names.get(snapshot)
    if not then:
        return rows
    others = {column_name.lower() for column_name in (*then, *then.values())}
    columns_kept = [to_column(column_name) for column_name in rows.columns if column_name.lower() not in others]
    return rows.select(*columns_kept, *[to_column(old).alias(now) for now, old in then.items() if old])


def read_appended(
    spark: SparkSession,
    table: TableName,
    window: Span,
    chain_is_whole: bool = True,
    old_column_names: Mapping[int, Names] = NO_OTHERS,
) -> DataFrame:
    """Reads the rows that were appended to a table in a window; without a start, all rows at its end.

    `old_column_names` is that of `read_table`. If snapshots within the window are expired (`chain_is_whole` is False),
    the rows are selected by their row lineage, which needs format version 3 and prunes no files. A window whose start
    is its end has no rows; Iceberg itself can't read such a range.
    """
    start, end = window.start, window.end
    if start is None:
        return read_table(spark, table, end.snapshot, old_column_names)
    if start == end:
        return read_table(spark, table, end.snapshot, old_column_names).where(F.lit(False))
    if not chain_is_whole:
        return read_table(spark, table, end.snapshot, old_column_names).where(F.col(COMMIT_ORDER) > start.sequence)
    reader = spark.read.option("start-snapshot-id", str(start.snapshot)).option("end-snapshot-id", str(end.snapshot))
    return reader.table(quote_name(*table.parts))


def read_appended_rows(spark: SparkSession, source: SourceState, window: Span) -> DataFrame:
    """Reads the rows that were appended to an upstream's change table, or to another upstream, in a window."""
    is_snapshot_there = source.keeps_version(window.start)
    return read_appended(spark, source.log, window, is_snapshot_there, source.old_column_names)


def read_own_changes(
    spark: SparkSession, table: TableName, changes: ChangeTableState, start: Version | None, end: Version
) -> DataFrame:
    """Reads the rows that were appended to `table`, a model's own change table, after `start` and up to `end`.

    None for `start` means from the beginning.
    """
    window = Span(str(table), start, end)
    return read_appended(spark, table, window, changes.keeps_version(start), changes.old_column_names)


def read_until(spark: SparkSession, source: SourceState, until: Version) -> DataFrame:
    """Reads all rows of an upstream's change table, or of another upstream, as of `until`.

    If that snapshot is expired, they are selected by row lineage. The rows of a change table's baseline are included,
    as inserts. Raises SourceError if the baseline is newer than `until`.
    """
    if source.keeps_version(until):
        rows = read_table(spark, source.log, until.snapshot, source.old_column_names)
    else:
        rows = read_table(spark, source.log, source.version.snapshot, source.old_column_names)
        rows = rows.where(F.col(COMMIT_ORDER) <= until.sequence)
    if source.baseline is None:
        return rows
    if until.sequence < source.baseline.sequence:
        raise SourceError(
            f"{source.name}: its rows as of an earlier version are not kept.",
            expected=f"a version from sequence number {source.baseline.sequence} on",
            actual=f"sequence number {until.sequence}",
            fix="read a later version, or run the model that reads it with --full-refresh",
        )
    return add_baseline_rows(rows, source.baseline, source.columns, source.old_column_names)


def add_baseline_rows(
    changes: DataFrame,
    baseline: Baseline,
    log_columns: Sequence[Column],
    old_column_names: Mapping[int, Names] = NO_OTHERS,
) -> DataFrame:
    """Returns the change rows after a baseline and, as inserts, the rows of the baseline itself.

    `changes` are rows of a change table with the columns `log_columns`. The result also has Iceberg's metadata columns
    for the order of rows, which a union would lose.
    """
    rows = read_table(changes.sparkSession, baseline.table, baseline.snapshot, old_column_names)
    time = F.expr(f"timestamp_millis({int(baseline.at_ms)})")
    inserts = conform_frame(rows.withColumns({ACTION: F.lit(INSERT), TIMESTAMP: time}), log_columns).select(
        "*", F.lit(baseline.sequence).cast("bigint").alias(COMMIT_ORDER), F.lit(None).cast("bigint").alias(_ROW_ID)
    )
    later = changes.where(F.col(COMMIT_ORDER) > baseline.sequence)
    placed = later.select("*", F.col(COMMIT_ORDER).alias(COMMIT_ORDER), F.col(_ROW_ID).alias(_ROW_ID))
    lineage = (Column(COMMIT_ORDER, "bigint"), Column(_ROW_ID, "bigint"))
    return conform_frame(placed, (*log_columns, *lineage)).unionAll(inserts)


def drop_lineage(rows: DataFrame) -> DataFrame:
    """Removes the metadata columns that `add_baseline_rows` has made ordinary ones."""
    return rows.drop(COMMIT_ORDER, _ROW_ID)


def select_newest_changes(changes: DataFrame, key: Sequence[str], commits: int) -> DataFrame:
    """Selects the newest change row of each key; `commits` is the number of commits from which `changes` are.

    Rows of one commit are returned as they are, since it has only one change row per key.
    """
    if commits <= 1:
        return changes
    return select_first_per_key(
        changes, [to_column(part) for part in key] or [F.lit(0)], [F.col(COMMIT_ORDER).desc(), F.col(SEQUENCE).desc()]
    )


def select_first_per_key(rows: DataFrame, key: Sequence[Expression], order: Sequence[Expression]) -> DataFrame:
    """Selects the first row of each key, in the order of the columns `order`.

    `lag` is used instead of `row_number`: for the latter Spark sorts the rows once more before the shuffle, to drop all
    but the first of each key, and hardly any would be dropped here.
    """
    earlier = F.lag(F.lit(True)).over(Window.partitionBy(*key).orderBy(*order))
    return rows.withColumn("__arctic_earlier", earlier).where("__arctic_earlier IS NULL").drop("__arctic_earlier")


def read_all_changes(spark: SparkSession, model: Model, state: TableState, snapshot: int | None = None) -> DataFrame:
    """Reads all rows of a model's change table, and as inserts those of its baseline if it has one.

    They are those at `snapshot` of the change table, by default its head.
    """
    changes = state.changes
    assert changes is not None
    assert changes.head is not None
    at = changes.head.snapshot if snapshot is None else snapshot
    rows = read_table(spark, model.table.changes, at, changes.old_column_names)
    if changes.baseline is None:
        return rows
    names = state.base.old_column_names if state.base else NO_OTHERS
    return add_baseline_rows(rows, changes.baseline, changes.columns, names)


def read_folded_rows(spark: SparkSession, model: Model, state: TableState, snapshot: int | None = None) -> DataFrame:
    """Computes a table's rows from its change table and its baseline, without the base table.

    They are those at `snapshot` of the change table, by default its head.
    """
    changes = state.changes
    assert changes is not None
    is_single = REPAIRED not in changes.properties and changes.baseline is None
    commits = changes.count_after(None) if is_single else max(2, changes.count_after(None))
    rows = read_all_changes(spark, model, state, snapshot)
    newest = select_newest_changes(rows, model.config.primary_key, commits).where(F.col(ACTION) != "delete")
    return conform_frame(newest, strip_change_columns(changes.columns))


def read_current_rows(
    spark: SparkSession, model: Model, state: TableState, thresholds: PruningThresholds, only: Keys | None = None
) -> DataFrame | None:
    """Computes the table's rows at the head of its change table, from the base table and the unmerged change rows.

    If `only` is given, rows of other keys are left out. Returns None if there is no base table yet.
    """
    base, pending = _read_base_rows(spark, model, state, only), _read_pending(spark, model, state, thresholds, only)
    if base is None or state.base is None:
        return None
    return base if pending is None else overlay_changes(base, pending, model.config.primary_key, state.base.columns)


def _read_base_rows(spark: SparkSession, model: Model, state: TableState, only: Keys | None) -> DataFrame | None:
    """Reads the rows of the base table, only those with keys in `only` if given; None if there is no base table yet."""
    if state.base is None:
        return None
    base = read_table(spark, model.base, state.base.snapshot, state.base.old_column_names)
    return only.select_rows(base, model.config.entity_key) if only else base


def read_stored_rows(
    spark: SparkSession, model: Model, state: TableState, thresholds: PruningThresholds, only: Keys
) -> StoredRows:
    """Reads the rows of the base table and the newest unmerged change rows, for the keys `only`."""
    pending = _read_pending(spark, model, state, thresholds, only)
    newest = select_newest_changes(pending.rows, model.config.primary_key, pending.commits) if pending else None
    return StoredRows(_read_base_rows(spark, model, state, only), newest)


def _read_pending(
    spark: SparkSession, model: Model, state: TableState, thresholds: PruningThresholds, only: Keys | None
) -> Unmerged | None:
    """Reads the change rows that are not merged into the base table, only those with keys in `only` if given.

    Returns None if there are none.
    """
    changes, base = state.changes, state.base
    if changes is None or base is None or base.merged is None or changes.newest is None:
        return None
    if not changes.list_commits_after(base.merged):
        return None
    appended = read_own_changes(spark, model.table.changes, changes, base.merged, changes.newest)
    appended = only.select_rows(appended, model.config.entity_key) if only else appended
    few = (only is not None and only.few) or changes.has_at_most_rows_after(base.merged, thresholds.broadcast_keys)
    return Unmerged(appended, changes.count_after(base.merged), few)


def overlay_changes(base: DataFrame, changes: Unmerged, key: Sequence[str], columns: Sequence[Column]) -> DataFrame:
    """Applies change rows to base rows: keeps base rows without a change, and adds the newest row of each changed key.

    The result has `columns`. The base rows are joined with the keys of all change rows, not of the newest ones: those
    are already partitioned by key, and Spark would shuffle the base rows in the same way.
    """
    keys = changes.rows.select(*as_key(key))
    unchanged = base.join(keys.hint("broadcast" if changes.few else "shuffle_hash"), match_key(base, key), "left_anti")
    alive = select_newest_changes(changes.rows, key, changes.commits).where(F.col(ACTION) != "delete")
    return conform_frame(unchanged, columns).unionAll(conform_frame(alive, columns))


def name_key_column(place: int) -> str:
    """Returns the name that the key column at position `place` has in DataFrames of keys."""
    return f"__arctic_k{place}"


def as_key(key: Sequence[str]) -> list[Expression]:
    """Returns the columns `key`, renamed as in all DataFrames of keys, with which `match_key` joins tables.

    For a key without columns it is one constant.
    """
    return [to_column(part).alias(name_key_column(i)) for i, part in enumerate(key)] or [
        F.lit(True).alias("__arctic_k")
    ]


def match_key(base: DataFrame, key: Sequence[str], null_safe: bool = False) -> Expression:
    """Builds the condition that joins `base` with a DataFrame of keys, whose columns are named by `as_key`.

    `key` are the key columns of `base`. Nulls equal each other if `null_safe`.
    """
    pairs = [(base[quote_name(part)], F.col(name_key_column(i))) for i, part in enumerate(key)]
    return combine_all(
        [own.eqNullSafe(given_column) if null_safe else own == given_column for own, given_column in pairs]
    )


def with_source_position(rows: DataFrame, keeps_all: bool = False) -> DataFrame:
    """Adds the column POSITION, by which rows of a source can be ordered: a struct of their commit and their row id.

    The source must have format version 3. If a commit may have several rows of one key (`keeps_all`), `_seq` is between
    the two.
    """
    inside = [F.col(SEQUENCE).alias("sequence")] if keeps_all else []
    place = F.struct(F.col(COMMIT_ORDER).alias("commit"), *inside, F.col(_ROW_ID).alias("row"))
    return rows.select("*", place.alias(POSITION))


def format_examples(rows: list[Row]) -> str:
    """Formats rows as the lines `example: …` of an error message."""
    return "".join(f"  example: {row.asDict(recursive=True)}\n" for row in rows)
