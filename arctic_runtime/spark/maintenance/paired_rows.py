"""Counts the differences of paired rows, and reads the most frequent ones and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from arctic_runtime.model.columns import Column, is_same_name
from arctic_runtime.model.table_diff import ColumnDiff, RowExample, RowKind, TableDiff, ValueChange
from arctic_runtime.spark.changes.equality import write_difference
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, quote_number
from arctic_runtime.spark.tables.rows.frames import as_key, match_key, name_key_column
from arctic_runtime.thresholds.engine import ReportThresholds

AFTER, BEFORE = "after", "before"

_CONDITIONS: Mapping[RowKind, Sql] = {
    "added": Sql("before IS NULL AND after IS NOT NULL"),
    "removed": Sql("after IS NULL AND before IS NOT NULL"),
    "changed": Sql("before IS NOT NULL AND after IS NOT NULL"),
}
"""The condition of each kind of rows among those that differ."""


@dataclass(frozen=True)
class DiffRequest:
    """What a difference of tables has to have, beyond its counts."""

    column: str | None = None
    """Column of which examples are wanted: rows in which it changed; None for rows of all kinds."""

    examples: int | None = None
    """Number of example rows of each kind; None for the usual number."""

    needs_rows: bool = False
    """Whether the number of the other table's rows is needed even if it takes a scan."""


@dataclass(frozen=True)
class CommonColumn:
    """A column of both tables, with its type in each."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class ComparedColumns:
    """The columns of two tables or versions."""

    before: tuple[Column, ...]
    """Columns of the other table, or the earlier version."""

    after: tuple[Column, ...]
    """Columns of the table, or the later version."""

    common: tuple[CommonColumn, ...]
    """Columns of both."""

    added: tuple[Column, ...]
    removed: tuple[Column, ...]
    retyped: tuple[tuple[str, str, str], ...]
    """Names of columns with another type, and their types before and after."""

    @property
    def has_less_or_other_types(self) -> bool:
        """Whether the later table lacks columns of the earlier one, or has columns with other types."""
        return bool(self.removed or self.retyped)


@dataclass(frozen=True)
class PairedRows:
    """Rows of two tables, paired by their key.

    `rows` has the columns of the key, named as by `as_key`, and the structs `after` and `before`, which are null if a
    table lacks the row. Both may be null or equal.
    """

    rows: DataFrame
    common: tuple[CommonColumn, ...]
    key: tuple[str, ...]


def select_keys(rows: DataFrame, keys: DataFrame, key: Sequence[str]) -> DataFrame:
    """Selects the rows whose key is among `keys`, whose columns are named as by `as_key`."""
    return rows.join(keys, match_key(rows, key), "left_semi")


def summarize_pairs(
    diff: TableDiff, pairs: PairedRows, request: DiffRequest, thresholds: ReportThresholds
) -> TableDiff:
    """Adds to a difference the counts of rows, the changes of columns, and examples; computes the pairs once."""
    differences = pairs.rows.where(F.expr(_write_any_difference(pairs.common))).persist()
    try:
        kinds = [_count(condition, kind) for kind, condition in _CONDITIONS.items()]
        cells = [_count(_write_change(column), _name_count(place)) for place, column in enumerate(pairs.common)]
        counts = differences.agg(*map(F.expr, (*kinds, *cells))).collect()[0].asDict()
        changed = {place: counts[_name_count(place)] for place in range(len(cells)) if counts[_name_count(place)]}
        most = thresholds.diff_examples if request.examples is None else request.examples
        return replace(
            diff,
            counts={kind: int(counts[kind]) for kind in _CONDITIONS},
            columns=_read_column_diffs(differences, pairs.common, changed, thresholds.diff_values) if changed else (),
            examples=tuple(_read_examples(differences, pairs, counts, most, request.column)),
        )
    finally:
        differences.unpersist()


def _write_any_difference(common: Sequence[CommonColumn]) -> Sql:
    either = [_write_column_difference(column) for column in common]
    both = fill_statement(
        "({changed} AND ({either}))",
        changed=_CONDITIONS["changed"],
        either=join_parts(either or [Sql("false")], " OR "),
    )
    return fill_statement(
        "({added} OR {removed} OR {both})", added=_CONDITIONS["added"], removed=_CONDITIONS["removed"], both=both
    )


def _write_column_difference(column: CommonColumn) -> Sql:
    """Builds the condition that a column has another value; values of different types are compared as texts."""
    if column.before == column.after:
        return write_difference([(quote_name(BEFORE, column.name), quote_name(AFTER, column.name), column.after)])
    before, after = (_write_text(side, column.name) for side in (BEFORE, AFTER))
    return fill_statement("NOT ({a} <=> {b})", a=before, b=after)


def _write_text(side: str, name: str) -> Sql:
    return fill_statement("CAST({value} AS string)", value=quote_name(side, name))


def _write_change(column: CommonColumn) -> Sql:
    """Builds the condition that both tables have a row, with different values of a column."""
    return fill_statement(
        "{changed} AND ({differs})", changed=_CONDITIONS["changed"], differs=_write_column_difference(column)
    )


def _count(condition: Sql, name: str) -> Sql:
    return fill_statement("count_if({condition}) AS {name}", condition=condition, name=quote_name(name))


def _name_count(place: int) -> str:
    """Names the number of changed values of the column at a place, which can't be the name of a kind of rows."""
    return f"column_{place}"


def _read_column_diffs(
    differences: DataFrame, common: Sequence[CommonColumn], changed: Mapping[int, int], max_values: int
) -> tuple[ColumnDiff, ...]:
    """Reads the `max_values` most frequent changes of each column; `changed` counts them by the column's place."""
    cells = [
        fill_statement(
            "struct({place} AS place, {differs} AS differs, {before} AS old, {after} AS new)",
            place=quote_number(place),
            differs=_write_change(common[place]),
            before=_write_text(BEFORE, common[place].name),
            after=_write_text(AFTER, common[place].name),
        )
        for place in changed
    ]
    exploded = fill_statement("inline(array({cells}))", cells=join_parts(cells))
    values = differences.selectExpr(exploded).where("differs")
    counted = values.groupBy("place", "old", "new").agg(F.count(F.lit(1)).alias("rows"))
    ranked = counted.selectExpr(
        "*", "row_number() OVER (PARTITION BY place ORDER BY rows DESC, old, new) AS rank"
    ).where(F.col("rank") <= max_values)
    found: dict[int, list[Row]] = {place: [] for place in changed}
    for row in sorted(ranked.collect(), key=lambda row: (row["place"], row["rank"])):
        found[row["place"]].append(row)
    return tuple(
        ColumnDiff(
            common[place].name,
            int(changed[place]),
            tuple(ValueChange(row["old"], row["new"], int(row["rows"])) for row in rows),
        )
        for place, rows in found.items()
    )


def _read_examples(
    differences: DataFrame, pairs: PairedRows, counts: Mapping[str, int], max_rows: int, column: str | None
) -> Iterator[RowExample]:
    """Yields the `max_rows` first rows of each kind by their keys; for a `column`, only rows in which it changed."""
    order = [name_key_column(i) for i in range(len(as_key(pairs.key)))]
    for kind, condition in _list_conditions(pairs.common, counts, column):
        for row in differences.where(F.expr(condition)).orderBy(*order).limit(max_rows).collect():
            before, after = (_to_values(row[side]) for side in (BEFORE, AFTER))
            shown = after if after is not None else before
            assert shown is not None
            names = {name.lower(): name for name in shown}
            yield RowExample(kind, {part: shown[names[part.lower()]] for part in pairs.key}, before, after)


def _list_conditions(
    common: Sequence[CommonColumn], counts: Mapping[str, int], column: str | None
) -> Iterator[tuple[RowKind, Sql]]:
    if column is None:
        yield from ((kind, condition) for kind, condition in _CONDITIONS.items() if counts[kind])
        return
    chosen = next((own for own in common if is_same_name(own.name, column)), None)
    if chosen is not None and counts["changed"]:
        yield "changed", _write_change(chosen)


def _to_values(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else row.asDict(recursive=True)
