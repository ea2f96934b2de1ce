"""Compares the rows of two tables with the same key."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.clones import observe_clone
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, Column, find_column, strip_change_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import ColumnDiff, RowExample, RowKind, TableDiff, ValueChange
from arctic_runtime.spark.changes.equality import write_difference
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, quote_number
from arctic_runtime.spark.maintenance.changes_between import frame_changes_between
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    as_key,
    combine_all,
    list_frame_columns,
    match_key,
    name_key_column,
)
from arctic_runtime.spark.tables.table_session import TableSession

_AFTER, _BEFORE = "after", "before"


def compare_with_table(session: TableSession, other: TableName, column: str | None = None) -> TableDiff:
    """Compares the table of the session's model with `other`, as readers see both now.

    If the model is a clone of `other` with the same columns, only the change rows since the clone was made are read, as
    long as they are kept; with other columns, the rows of the keys that changed; else all rows of both. With `column`,
    the examples are rows in which it differs. Raises ConfigError if `other` lacks a column of the key, or the two have
    no such `column`.
    """
    began = time.monotonic()
    spark, model = session.spark(), session.model
    key = model.config.primary_key
    own, others = (spark.table(quote_name(*table.parts)) for table in (model.table, other))
    columns = _match_columns(model.table, other, key, list_frame_columns(own), list_frame_columns(others))
    changes = _find_changes(session, other)
    if changes is not None and columns.are_same and not any(_has_upserts(part) for part in changes):
        pairs = _pair_changes(*changes, key, _strip(changes[0]))
    else:
        keys = None if changes is None else _list_keys(changes, key)
        pairs = _pair_rows(_select_keys(own, keys, key), _select_keys(others, keys, key), key)
    diff = _read_diff(session, other, _Pairs(pairs, columns, column))
    other_rows = _count_rows(session.reader, other)
    return replace(
        diff,
        other_rows=others.count() if other_rows is None else other_rows,
        reads_changes=changes is not None,
        seconds=time.monotonic() - began,
    )


def compare_versions(session: TableSession, start: str, end: str | None, column: str | None = None) -> TableDiff:
    """Compares two versions of a table, each a snapshot id or the name of a savepoint; None for the newest.

    Only the change rows after `start` are read. With `column`, the examples are rows in which it differs. Raises
    ConfigError if a version or change rows since `start` are not kept, or if change rows lack the rows before.
    """
    began, model = time.monotonic(), session.model
    key = model.config.primary_key
    changes = frame_changes_between(session, start, end)
    if _has_upserts(changes):
        raise ConfigError(
            f"Versions of {model.table} can't be compared.",
            expected="change rows with the rows before",
            actual="`changelog: input`, by which they are not looked up",
            fix="compare tables, by `--schema`",
        )
    stored = _strip(changes)
    columns = _match_columns(model.table, model.table, key, stored, stored)
    diff = _read_diff(session, model.table, _Pairs(_pair_versions(changes, key, stored), columns, column))
    return replace(
        diff,
        other_rows=_count_rows_at(session, start),
        reads_changes=True,
        versions=(start, end or ""),
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True)
class _Pairs:
    """Rows of two sides with the same key, the columns of both, and the column that examples differ in, if given."""

    rows: DataFrame
    columns: _Columns
    column: str | None


def _read_diff(session: TableSession, other: TableName, pairs: _Pairs) -> TableDiff:
    """Reads the differences of pairs of rows; the number of rows of the other side is left to the caller."""
    model, limits, columns = session.model, session.reader.thresholds.reports, pairs.columns
    chosen = _find_common_column(model.table, pairs)
    differences = pairs.rows.where(F.expr(_write_any_difference(columns.common))).persist()
    try:
        counts = differences.agg(*[F.expr(_count(kind)) for kind in _CONDITIONS]).collect()[0].asDict()
        shown = differences if chosen is None else differences.where(F.expr(_write_change_in(chosen)))
        return TableDiff(
            model.table,
            other,
            {kind: int(counts[kind]) for kind in _CONDITIONS},
            0,
            _read_column_diffs(differences, columns.common, limits.diff_values) if counts["changed"] else (),
            columns.added,
            columns.removed,
            tuple((name, before, after) for name, before, after in columns.common if before != after),
            examples=tuple(_read_examples(shown, model.config.primary_key, counts, limits.diff_examples)),
        )
    finally:
        differences.unpersist()


def _find_common_column(table: TableName, pairs: _Pairs) -> tuple[str, str, str] | None:
    if pairs.column is None:
        return None
    for column in pairs.columns.common:
        if column[0].lower() == pairs.column.lower():
            return column
    raise ConfigError(
        f"{table} and the other side have no column {pairs.column}.",
        expected=", ".join(name for name, _, _ in pairs.columns.common),
        actual=pairs.column,
    )


def _write_change_in(column: tuple[str, str, str]) -> Sql:
    changed, differs = _CONDITIONS["changed"], _write_column_difference(*column)
    return fill_statement("{changed} AND {differs}", changed=changed, differs=differs)


def _pair_versions(changes: DataFrame, key: Sequence[str], stored: Sequence[Column]) -> DataFrame:
    """Pairs the rows of two versions by the change rows between them, as structs that are null if there is no row."""
    ends = _find_ends(changes, key, stored)
    return ends.where(F.col(_AFTER).isNotNull() | F.col(_BEFORE).isNotNull())


def _find_ends(changes: DataFrame, key: Sequence[str], stored: Sequence[Column]) -> DataFrame:
    """Returns for each key the row before its first change row, and the row after its last one, as structs."""
    names = {part.lower() for part in key}
    rest = [column for column in stored if column.name.lower() not in names]
    has_before = any(name.lower() == BEFORE for name in changes.columns)
    own = [F.col(quote_name(column.name)).alias(column.name) for column in stored]
    earlier = [
        (F.col(quote_name(BEFORE, column.name)) if column in rest and has_before else F.col(quote_name(column.name)))
        for column in stored
    ]
    before = F.struct(*[part.alias(column.name) for part, column in zip(earlier, stored, strict=True)])
    marked = changes.select(
        *[part.alias(name_key_column(i)) for i, part in enumerate(as_key(key))],
        F.struct(F.col(COMMIT_ORDER), F.col(SEQUENCE)).alias("place"),
        F.when(F.col(ACTION) != "delete", F.struct(*own)).alias(_AFTER),
        F.when(F.col(ACTION) != "insert", before).alias(_BEFORE),
    )
    keys = [name_key_column(i) for i in range(len(as_key(key)))]
    return marked.groupBy(*keys).agg(F.max_by(_AFTER, "place").alias(_AFTER), F.min_by(_BEFORE, "place").alias(_BEFORE))


def _count_rows(reader: CatalogReader, table: TableName) -> int | None:
    """Returns the number of rows of a table from its metadata; None for a view, or if the metadata has no counts."""
    described = reader.describe_relation(table.schema, table.name)
    return described.rows if described is not None and described.kind == "table" else None


def _count_rows_at(session: TableSession, version: str) -> int:
    """Counts the rows of a version: those of now, without the ones that change rows have added since."""
    known = _count_rows(session.reader, session.model.table)
    table = session.spark().table(quote_name(*session.model.table.parts))
    now = table.count() if known is None else known
    since = frame_changes_between(session, version, None)
    added = since.agg(F.expr(f"count_if({ACTION} = 'insert') - count_if({ACTION} = 'delete')")).collect()[0][0]
    return now - int(added)


_CONDITIONS: Mapping[RowKind, Sql] = {
    "added": Sql("before IS NULL"),
    "removed": Sql("after IS NULL"),
    "changed": Sql("before IS NOT NULL AND after IS NOT NULL"),
}
"""The condition of each kind of rows among those that differ."""


@dataclass(frozen=True)
class _Columns:
    """The columns of two tables: those of both, with their types before and after, and those of one table alone."""

    common: tuple[tuple[str, str, str], ...]
    added: tuple[Column, ...]
    removed: tuple[Column, ...]

    @property
    def are_same(self) -> bool:
        """Whether both tables have the same columns with the same types."""
        return not (self.added or self.removed) and all(before == after for _, before, after in self.common)


def _match_columns(
    table: TableName, other: TableName, key: Sequence[str], own: Sequence[Column], others: Sequence[Column]
) -> _Columns:
    for part in key:
        if find_column(tuple(others), part) is None:
            raise ConfigError(
                f"{table} can't be compared with {other}, which lacks a column of its primary key.",
                expected=", ".join(key),
                actual=", ".join(column.name for column in others),
                fix="compare tables with the same primary key",
            )
    matches = [(column, find_column(tuple(others), column.name)) for column in own]
    common = tuple((column.name, same.type, column.type) for column, same in matches if same is not None)
    added = tuple(column for column, same in matches if same is None)
    removed = tuple(column for column in others if find_column(tuple(own), column.name) is None)
    return _Columns(common, added, removed)


def _find_changes(session: TableSession, other: TableName) -> tuple[DataFrame, DataFrame] | None:
    """Returns the change rows of a clone and of its origin since the clone was made; None if they aren't known."""
    model, clone = session.model, observe_clone(session.reader, session.model.table)
    if clone is None or clone.origin.model != other:
        return None
    origin = TableSession(replace(model, table=other), session.reader, session.spark, session.now)
    try:
        own, others = (frame_changes_between(part, clone.origin.version.snapshot, None) for part in (session, origin))
    except ConfigError:
        return None
    return own, others


def _strip(changes: DataFrame) -> tuple[Column, ...]:
    return strip_change_columns(tuple(list_frame_columns(changes)))


def _has_upserts(changes: DataFrame) -> bool:
    """Whether some change rows lack the rows before, since nobody looked them up."""
    return not changes.where(F.col(ACTION) == "upsert").isEmpty()


def _list_keys(changes: Sequence[DataFrame], key: Sequence[str]) -> DataFrame:
    one, another = (rows.select(*as_key(key)) for rows in changes)
    return one.unionAll(another).distinct()


def _pair_changes(own: DataFrame, others: DataFrame, key: Sequence[str], stored: Sequence[Column]) -> DataFrame:
    """Pairs the rows of two tables that were one, by the change rows of both since then.

    A row that only one of them has changed is in the other as it was before its first change.
    """
    keys = [name_key_column(i) for i in range(len(as_key(key)))]
    one, another = (_find_ends(changes, key, stored) for changes in (own, others))
    left = one.select(*keys, F.col(_AFTER).alias("own_after"), F.col(_BEFORE).alias("own_before"), F.lit(1).alias("a"))
    right = another.select(
        *keys, F.col(_AFTER).alias("other_after"), F.col(_BEFORE).alias("other_before"), F.lit(1).alias("b")
    )
    after = F.when(F.col("a").isNotNull(), F.col("own_after")).otherwise(F.col("other_before"))
    before = F.when(F.col("b").isNotNull(), F.col("other_after")).otherwise(F.col("own_before"))
    pairs = left.join(right, keys, "full_outer").select(*keys, after.alias(_AFTER), before.alias(_BEFORE))
    return pairs.where(F.col(_AFTER).isNotNull() | F.col(_BEFORE).isNotNull())


def _select_keys(rows: DataFrame, keys: DataFrame | None, key: Sequence[str]) -> DataFrame:
    return rows if keys is None else rows.join(keys, match_key(rows, key), "left_semi")


def _pair_rows(own: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
    """Joins the rows of both tables on the key, each as a struct that is null if its table lacks the row."""
    sides = [
        rows.select(*[part.alias(f"{side}_{i}") for i, part in enumerate(as_key(key))], F.struct("*").alias(side))
        for rows, side in ((own, _AFTER), (others, _BEFORE))
    ]
    count = len(as_key(key))
    on = combine_all([F.col(f"{_AFTER}_{i}") == F.col(f"{_BEFORE}_{i}") for i in range(count)])
    names = [F.coalesce(f"{_AFTER}_{i}", f"{_BEFORE}_{i}").alias(name_key_column(i)) for i in range(count)]
    return sides[0].join(sides[1], on, "full_outer").select(*names, _AFTER, _BEFORE)


def _write_any_difference(common: Sequence[tuple[str, str, str]]) -> Sql:
    either = [_write_column_difference(*column) for column in common]
    parts = join_parts([Sql("before IS NULL"), Sql("after IS NULL"), *either], " OR ")
    return fill_statement("({parts})", parts=parts)


def _write_column_difference(name: str, before: str, after: str) -> Sql:
    """Builds the condition that a column has another value; values of different types are compared as texts."""
    if before == after:
        return write_difference([(quote_name(_BEFORE, name), quote_name(_AFTER, name), after)])
    return fill_statement("NOT ({a} <=> {b})", a=_write_text(_BEFORE, name), b=_write_text(_AFTER, name))


def _write_text(side: str, name: str) -> Sql:
    return fill_statement("CAST({value} AS string)", value=quote_name(side, name))


def _count(kind: RowKind) -> Sql:
    return fill_statement("count_if({is_one}) AS {own}", is_one=_CONDITIONS[kind], own=quote_name(kind))


def _read_column_diffs(
    differences: DataFrame, common: Sequence[tuple[str, str, str]], most: int
) -> tuple[ColumnDiff, ...]:
    """Reads for each column how many values changed, and the `most` most frequent changes of values."""
    cells = [
        fill_statement(
            "struct({place} AS place, {differs} AS differs, {before} AS old, {after} AS new)",
            place=quote_number(place),
            differs=_write_column_difference(*column),
            before=_write_text(_BEFORE, column[0]),
            after=_write_text(_AFTER, column[0]),
        )
        for place, column in enumerate(common)
    ]
    exploded = fill_statement("inline(array({cells}))", cells=join_parts(cells))
    changed = differences.where(F.expr(_CONDITIONS["changed"])).selectExpr(exploded).where("differs")
    counted = changed.groupBy("place", "old", "new").agg(F.count(F.lit(1)).alias("rows"))
    ranked = counted.selectExpr(
        "*",
        "sum(rows) OVER (PARTITION BY place) AS total",
        "row_number() OVER (PARTITION BY place ORDER BY rows DESC, old, new) AS rank",
    )
    values: dict[int, list[Row]] = {}
    for row in ranked.where(F.col("rank") <= most).orderBy("place", "rank").collect():
        values.setdefault(row["place"], []).append(row)
    return tuple(
        ColumnDiff(
            common[place][0],
            int(rows[0]["total"]),
            tuple(ValueChange(row["old"], row["new"], int(row["rows"])) for row in rows),
        )
        for place, rows in values.items()
    )


def _read_examples(
    differences: DataFrame, key: Sequence[str], counts: Mapping[str, int], most: int
) -> Iterable[RowExample]:
    """Yields the `most` first rows of each kind, in the order of their keys."""
    order = [name_key_column(i) for i in range(len(as_key(key)))]
    for kind, condition in _CONDITIONS.items():
        if counts[kind]:
            for row in differences.where(F.expr(condition)).orderBy(*order).limit(most).collect():
                before, after = (_to_texts(row[side]) for side in (_BEFORE, _AFTER))
                shown = after if after is not None else before
                assert shown is not None
                names = {name.lower(): name for name in shown}
                yield RowExample(kind, {part: shown[names[part.lower()]] for part in key}, before, after)


def _to_texts(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else row.asDict(recursive=True)
