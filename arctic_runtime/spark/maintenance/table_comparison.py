"""Compares the rows of two tables with the same key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.clones import observe_clone
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column, find_column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import ColumnDiff, RowExample, RowKind, TableDiff, ValueChange
from arctic_runtime.spark.changes.equality import write_difference
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, quote_number
from arctic_runtime.spark.maintenance.changes_between import frame_changes_between
from arctic_runtime.spark.tables.rows.frames import as_key, combine_all, list_frame_columns, match_key, name_key_column
from arctic_runtime.spark.tables.table_session import TableSession

_AFTER, _BEFORE = "after", "before"


def compare_with_table(session: TableSession, other: TableName) -> TableDiff:
    """Compares the table of the session's model with `other`, as readers see both now.

    If the model is a clone of `other`, only the keys with change rows since the clone was made are read, as long as
    these change rows are kept; else all rows of both. Raises ConfigError if `other` lacks a column of the key.
    """
    spark, model, limits = session.spark(), session.model, session.reader.thresholds.reports
    key = model.config.primary_key
    own, others = (spark.table(quote_name(*table.parts)) for table in (model.table, other))
    columns = _match_columns(model.table, other, key, list_frame_columns(own), list_frame_columns(others))
    keys = _find_changed_keys(session, other)
    pairs = _pair_rows(_select_keys(own, keys, key), _select_keys(others, keys, key), key)
    differences = pairs.where(F.expr(_write_any_difference(columns.common))).persist()
    try:
        counts = differences.agg(*[F.expr(_count(kind)) for kind in _CONDITIONS]).collect()[0].asDict()
        return TableDiff(
            model.table,
            other,
            {kind: int(counts[kind]) for kind in _CONDITIONS},
            others.count(),
            _read_column_diffs(differences, columns.common, limits.diff_values) if counts["changed"] else (),
            columns.added,
            columns.removed,
            tuple((name, before, after) for name, before, after in columns.common if before != after),
            tuple(_read_examples(differences, key, counts, limits.diff_examples)),
            reads_changes=keys is not None,
        )
    finally:
        differences.unpersist()


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


def _find_changed_keys(session: TableSession, other: TableName) -> DataFrame | None:
    """Returns the keys that changed in a clone or its origin since the clone was made; None if they aren't known."""
    model, clone = session.model, observe_clone(session.reader, session.model.table)
    if clone is None or clone.origin.model != other:
        return None
    origin = TableSession(replace(model, table=other), session.reader, session.spark, session.now)
    try:
        changes = [frame_changes_between(part, clone.origin.version.snapshot, None) for part in (session, origin)]
    except ConfigError:
        return None
    one, another = (rows.select(*as_key(model.config.primary_key)) for rows in changes)
    return one.unionAll(another).distinct()


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
