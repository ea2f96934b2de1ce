"""What values are looked for, found out in one job."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.plan.incremental.bounds import Bound, condition, is_bounded
from arctic_runtime.spark.frames import column
from arctic_runtime.spark.statement import Sql, expression

MOST_VALUES = 200
"""Iceberg compares no longer list with the bounds of files."""

SCANNED_ROWS = 1_000_000
"""A table with no more rows is read as a whole: that costs no more than a look at what is looked for."""

EVERYWHERE, NOWHERE = Sql("true"), Sql("false")


def near(rows: DataFrame, count: int, table_rows: int, alias: str | None = None) -> Sql:
    """A condition on a table of `table_rows` that is true for all its rows with the values of a row of `rows`.

    `rows`, about `count` of them, has the table's columns that are compared; a null says that a value is not known. One
    job, or none where the table has few rows.
    """
    if table_rows <= SCANNED_ROWS:
        return EVERYWHERE
    found = bounds(rows, count)
    if found is None:
        return NOWHERE
    told = [bound for bound in found if not bound.or_null]
    return expression(condition(told, alias)) if told else EVERYWHERE


def bounds(rows: DataFrame, count: int) -> tuple[Bound, ...] | None:
    """What the columns of `rows`, about `count` of them, hold, as far as it has bounds; None if there are no rows."""
    types = {field: kind for field, kind in rows.dtypes if is_bounded(kind)}
    return _lists(rows, types) if count <= MOST_VALUES else _ranges(rows, types)


def _lists(rows: DataFrame, types: dict[str, str]) -> tuple[Bound, ...] | None:
    found = rows.select(*[_written(column(field), kind) for field, kind in types.items()]).collect()
    if not found:
        return None
    values = {field: {row[place] for row in found} for place, field in enumerate(types)}
    return tuple(
        Bound(field, types[field], tuple(sorted(texts - {None})), is_range=False, or_null=None in texts)
        for field, texts in values.items()
    )


def _ranges(rows: DataFrame, types: dict[str, str]) -> tuple[Bound, ...] | None:
    asked: list[Expression] = [F.count(F.lit(1)).alias("rows")]
    for place, (field, kind) in enumerate(types.items()):
        least, greatest = (_written(end(column(field)), kind) for end in (F.min, F.max))
        nulls = F.count_if(column(field).isNull())
        asked += [least.alias(f"least{place}"), greatest.alias(f"greatest{place}"), nulls.alias(f"nulls{place}")]
    found = rows.agg(*asked).collect()[0]
    if not found["rows"]:
        return None
    ends = {place: (found[f"least{place}"], found[f"greatest{place}"]) for place in range(len(types))}
    return tuple(
        Bound(field, kind, ends[place] if None not in ends[place] else (), True, found[f"nulls{place}"] > 0)
        for place, (field, kind) in enumerate(types.items())
    )


def _written(value: Expression, kind: str) -> Expression:
    """A value as a text, as bounds keep it."""
    since = {"date": F.unix_date, "timestamp": F.unix_micros}.get(kind)
    return (since(value) if since else value).cast("string")
