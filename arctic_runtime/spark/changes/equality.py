"""Exact equality of values and rows: equal only if no query can see a difference.

Spark's comparisons, groups and set operations treat 0.0 and -0.0 as equal, although casts to text and divisions give
different results. Here they differ. All NaNs are equal, and nulls equal each other.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, join_parts, quote_name
from arctic_runtime.spark.tables.rows.frames import to_column, type_of
from arctic_runtime.sql.types import Map, Primitive, list_primitives, read_type

_FLOATS = ("float", "double")
_COPY = "__arctic_copy"


def write_difference(pairs: Iterable[tuple[Sql, Sql, str]]) -> Sql:
    """Builds the condition that the two values of any pair differ exactly.

    Each of `pairs` consists of two values and their SQL type.
    """
    differences = [
        fill_statement("NOT ({a} <=> {b})", a=a, b=b)
        for left, right, kind in pairs
        for a, b in zip(_list_identity_values(left, kind), _list_identity_values(right, kind), strict=True)
    ]
    return join_parts(differences, " OR ") if differences else Sql("false")


def identify_row(rows: DataFrame) -> Sql:
    """Builds a struct of all columns, for groups and distinct counts; it is equal only for exactly equal rows."""
    parts = [part for own, kind in _list_types(rows).items() for part in _list_identity_values(quote_name(own), kind)]
    return fill_statement("struct({parts})", parts=join_parts(parts or [Sql("0")]))


def sum_multiplicities(rows: DataFrame, weight: str) -> DataFrame:
    """Groups exactly equal rows into one row, with the sum of their column `weight`; drops rows whose sum is 0."""
    keys: list[Sql] = []
    values: list[Sql] = []
    for own, kind in _list_types(rows, weight).items():
        identity = _list_identity_values(quote_name(own), kind)
        if identity == [quote_name(own)]:
            keys += identity
            continue
        keys += [alias_as(part, f"__arctic_same{len(keys) + i}") for i, part in enumerate(identity)]
        values.append(fill_statement("first({own}) AS {own}", own=quote_name(own)))
    total = fill_statement("sum({weight}) AS {weight}", weight=quote_name(weight))
    grouped = rows.groupBy(*map(F.expr, keys)).agg(*map(F.expr, (*values, total)))
    return grouped.where(to_column(weight) != 0).select(*map(to_column, rows.columns))


def compare_bags(new: DataFrame, old: DataFrame, weight: str) -> DataFrame:
    """Computes the difference of two multisets of rows: `weight` is 1 for surplus rows of `new`, -1 for those of `old`.

    A row that occurs n times more often on one side is returned n times.
    """
    both = new.withColumn(weight, F.lit(1)).unionAll(old.withColumn(weight, F.lit(-1)))
    copies = fill_statement(
        "explode(array_repeat(0, CAST(abs({weight}) AS int))) AS {copy}",
        weight=quote_name(weight),
        copy=quote_name(_COPY),
    )
    sign = fill_statement("CASE WHEN {weight} > 0 THEN 1 ELSE -1 END", weight=quote_name(weight))
    return sum_multiplicities(both, weight).selectExpr("*", copies).withColumn(weight, F.expr(sign)).drop(_COPY)


def _list_types(rows: DataFrame, *without: str) -> dict[str, str]:
    return {field.name: type_of(field.dataType) for field in rows.schema.fields if field.name not in without}


def _list_identity_values(value: Sql, kind: str) -> list[Sql]:
    """Builds expressions for Spark to compare in place of `value`, whose SQL type is `kind`.

    Two values are exactly equal only if all their expressions are equal for Spark.
    """
    known = read_type(kind)
    # Spark can't compare maps, but it can compare their sorted entries.
    compared = fill_statement("array_sort(map_entries({value}))", value=value) if isinstance(known, Map) else value
    if not any(leaf.text in _FLOATS for leaf in list_primitives(known)):
        return [compared]
    # The texts of nested values that Spark takes as equal differ only in the signs of zeros.
    is_nested = not isinstance(known, Primitive)
    zeros = fill_statement("CAST({value} AS string)", value=compared) if is_nested else _is_negative_zero(value)
    return [compared, zeros]


def _is_negative_zero(value: Sql) -> Sql:
    """Builds the condition that a floating-point value is -0.0.

    Its absolute value is compared with 0D: after a comparison of the value itself Spark would assume that it is 0.0.
    """
    return fill_statement("(abs({value}) <=> 0D AND power({value}, -1D) < 0D)", value=value)
