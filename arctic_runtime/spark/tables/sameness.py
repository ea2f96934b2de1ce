"""Whether values and rows are the same to every reader.

Spark's comparisons, groups and set operations take 0.0 and -0.0 for one value, which casts to text and divisions tell
apart. Here they are two. All NaNs are one value, and nulls equal each other.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.types import Map, Primitive, primitives, read_type
from arctic_runtime.spark.engine.statement import Sql, aliased, listed, name, statement
from arctic_runtime.spark.tables.frames import column, type_of

_FLOATS = ("float", "double")
_COPY = "__arctic_copy"


def differ(pairs: Iterable[tuple[Sql, Sql, str]]) -> Sql:
    """Whether the two values of any pair, which are of a type, differ."""
    differences = [
        statement("NOT ({a} <=> {b})", a=a, b=b)
        for left, right, kind in pairs
        for a, b in zip(_identity(left, kind), _identity(right, kind), strict=True)
    ]
    return listed(differences, " OR ") if differences else Sql("false")


def identify_row(rows: DataFrame) -> Sql:
    """A struct that equals those of the same rows alone, for groups and distinct counts."""
    parts = [part for own, kind in _types(rows).items() for part in _identity(name(own), kind)]
    return statement("struct({parts})", parts=listed(parts or [Sql("0")]))


def net_rows(rows: DataFrame, weight: str) -> DataFrame:
    """Each row once, with the sum of the weights of its copies; rows whose weights cancel out are left out."""
    keys: list[Sql] = []
    values: list[Sql] = []
    for own, kind in _types(rows, weight).items():
        identity = _identity(name(own), kind)
        if identity == [name(own)]:
            keys += identity
            continue
        keys += [aliased(part, f"__arctic_same{len(keys) + i}") for i, part in enumerate(identity)]
        values.append(statement("first({own}) AS {own}", own=name(own)))
    total = statement("sum({weight}) AS {weight}", weight=name(weight))
    grouped = rows.groupBy(*map(F.expr, keys)).agg(*map(F.expr, (*values, total)))
    return grouped.where(column(weight) != 0).select(*map(column, rows.columns))


def compare_bags(new: DataFrame, old: DataFrame, weight: str) -> DataFrame:
    """The rows that `new` has more often than `old` (`weight` 1) and those that it has less often (-1), each copy."""
    both = new.withColumn(weight, F.lit(1)).unionAll(old.withColumn(weight, F.lit(-1)))
    copies = statement(
        "explode(array_repeat(0, CAST(abs({weight}) AS int))) AS {copy}", weight=name(weight), copy=name(_COPY)
    )
    sign = statement("CASE WHEN {weight} > 0 THEN 1 ELSE -1 END", weight=name(weight))
    return net_rows(both, weight).selectExpr("*", copies).withColumn(weight, F.expr(sign)).drop(_COPY)


def _types(rows: DataFrame, *without: str) -> dict[str, str]:
    return {field.name: type_of(field.dataType) for field in rows.schema.fields if field.name not in without}


def _identity(value: Sql, kind: str) -> list[Sql]:
    """Values that Spark takes for equal if the value is the same."""
    known = read_type(kind)
    # Spark compares no maps, but their entries in order.
    compared = statement("array_sort(map_entries({value}))", value=value) if isinstance(known, Map) else value
    if not any(leaf.text in _FLOATS for leaf in primitives(known)):
        return [compared]
    # Texts of equal nested values differ in the signs of zeros alone.
    is_nested = not isinstance(known, Primitive)
    zeros = statement("CAST({value} AS string)", value=compared) if is_nested else _is_negative_zero(value)
    return [compared, zeros]


def _is_negative_zero(value: Sql) -> Sql:
    """Whether a floating-point value is -0.0; of a value that equals 0D Spark would assume that it is 0.0."""
    return statement("(abs({value}) <=> 0D AND power({value}, -1D) < 0D)", value=value)
