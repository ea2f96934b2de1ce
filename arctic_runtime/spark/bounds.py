"""Where rows can be that are looked for by their values: conditions by which a scan leaves out files without a look.

They let through more than is looked for, so a join with the values themselves has to follow. Iceberg compares them
with the partitions and the bounds of files, Parquet with those of row groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.spark.frames import column
from arctic_runtime.spark.statement import Sql, listed, name, number, statement, text

MOST_VALUES = 200
"""Iceberg compares no longer list with the bounds of files."""

SCANNED_ROWS = 1_000_000
"""A table with no more rows is read as a whole: that costs no more than a look at what is looked for."""

_PLAIN = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Bound:
    """The values that are looked for in a column: each of them, or, for a range, the least and the greatest."""

    column: str
    values: tuple[Sql, ...]
    is_range: bool


def near(rows: DataFrame, count: int, table_rows: int, alias: Sequence[str] = ()) -> Sql:
    """A condition on a table of `table_rows` that is true for all rows with the values of a row of `rows`.

    `rows`, about `count` of them, has the table's columns that are compared. The condition is true for all where these
    tell nothing, and false where there are none. One job, or none where the table has few rows.
    """
    if table_rows <= SCANNED_ROWS:
        return Sql("true")
    found = bounds(rows, count)
    if found is None:
        return Sql("false")
    return listed([_within(bound, alias) for bound in found], " AND ") or Sql("true")


def bounds(rows: DataFrame, count: int) -> tuple[Bound, ...] | None:
    """What the columns of `rows` hold; None where there are no rows.

    Columns with nulls are left out, and those whose order is not the same everywhere: floats, and texts with a
    collation.
    """
    types = {field: kind for field, kind in rows.dtypes if _is_ordered(kind)}
    return _lists(rows, types) if count <= MOST_VALUES else _ranges(rows, types)


def _is_ordered(kind: str) -> bool:
    return kind in (*_PLAIN, "string", "date", "timestamp") or kind.startswith("decimal(")


def _lists(rows: DataFrame, types: dict[str, str]) -> tuple[Bound, ...] | None:
    found = rows.select(*[_written(column(field), kind) for field, kind in types.items()]).collect()
    if not found:
        return None
    values = {field: {row[place] for row in found} for place, field in enumerate(types)}
    return tuple(
        Bound(field, tuple(_literal(value, types[field]) for value in sorted(texts)), is_range=False)
        for field, texts in values.items()
        if None not in texts
    )


def _ranges(rows: DataFrame, types: dict[str, str]) -> tuple[Bound, ...] | None:
    asked: list[Expression] = [F.count(F.lit(1)).alias("rows")]
    for place, (field, kind) in enumerate(types.items()):
        least, greatest = (_written(end(column(field)), kind) for end in (F.min, F.max))
        asked += [least.alias(f"l{place}"), greatest.alias(f"g{place}")]
        asked.append(F.count_if(column(field).isNull()).alias(f"n{place}"))
    found = rows.agg(*asked).collect()[0]
    if not found["rows"]:
        return None
    return tuple(
        Bound(field, tuple(_literal(found[f"{end}{place}"], kind) for end in "lg"), is_range=True)
        for place, (field, kind) in enumerate(types.items())
        if not found[f"n{place}"]
    )


def _written(value: Expression, kind: str) -> Expression:
    """A value as a text that `_literal` reads back as it was, whatever the session's time zone."""
    if kind == "date":
        value = F.unix_date(value)
    if kind == "timestamp":
        value = F.unix_micros(value)
    return value.cast("string")


def _literal(value: str, kind: str) -> Sql:
    if kind == "string":
        return text(value)
    if kind == "date":
        return statement("date_from_unix_date({n})", n=number(int(value)))
    if kind == "timestamp":
        return statement("timestamp_micros({n})", n=number(int(value)))
    return statement("CAST({value} AS {kind})", value=text(value), kind=Sql(kind))


def _within(bound: Bound, table: Sequence[str]) -> Sql:
    of = name(*table, bound.column)
    if bound.is_range:
        least, greatest = bound.values
        return statement("{of} BETWEEN {least} AND {greatest}", of=of, least=least, greatest=greatest)
    return statement("{of} IN ({values})", of=of, values=listed(bound.values))
