"""Rows merged column by column: what the events of a key leave behind, and how that meets the row that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from typing_extensions import LiteralString

from arctic_runtime.model.merge_columns import FUNCTIONS, get_function
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, quote_name, type_name
from arctic_runtime.spark.refresh import present
from arctic_runtime.spark.refresh.diff import list_key_images

GIVES = "gives"
"""Whether an event says what the row is now; retractions and deletes do not."""

_FOLDED: Mapping[str, LiteralString] = {
    "last": "max_by(struct({a} AS value), CASE WHEN gives AND {has} THEN `order` END).value",
    "last_non_null": "max_by({a}, CASE WHEN gives AND {a} IS NOT NULL THEN `order` END)",
    "first": "min_by(struct({a} AS value), CASE WHEN gives THEN `order` END).value",
    "sum": "sum(CASE WHEN NOT deleted THEN {a} * sign END)",
    "max": "max(CASE WHEN gives THEN {a} END)",
    "min": "min(CASE WHEN gives THEN {a} END)",
    "union": (
        "CASE WHEN count(CASE WHEN gives THEN {a} END) > 0 "
        "THEN array_sort(array_distinct(flatten(collect_list(CASE WHEN gives THEN {a} END)))) END"
    ),
}
"""Function → the value that the events of a key give, those after its last delete."""

_BLENDED: Mapping[str, LiteralString] = {
    "last": "CASE WHEN {said} THEN {a} ELSE {b} END",
    "last_non_null": "coalesce({a}, {b})",
    "first": "{b}",
    "sum": "coalesce({a} + {b}, {a}, {b})",
    "max": "greatest({a}, {b})",
    "min": "least({a}, {b})",
    "union": "coalesce(array_sort(array_union({a}, {b})), {a}, {b})",
}
"""Function → the value of a row that is there, from what its events give (a) and what it has (b)."""


def fold(model: Model, events: DataFrame, shape: Shape) -> DataFrame:
    """The events after the last delete of each key as one row, every column by its function."""
    has_deletes = model.config.delete_when is not None or model.config.truncate_when is not None
    since = since_last_delete(events, shape) if has_deletes else events
    given = since.withColumn(GIVES, ~F.col("deleted") & (F.col("sign") > 0))
    return given.groupBy(*list_key_images(shape)).agg(
        *[F.expr(alias_as(value, f"a{i}")) for i, value in folded(model, shape).items()],
        *[F.expr(of) for of in brought(present.flags(model, shape))],
        F.bool_and("deleted").alias("deleted"),
        F.bool_or("deleted").alias("reset"),
        F.bool_or(GIVES).alias(GIVES),
        F.max_by("ts", "order").alias("ts"),
        F.max_by("seq", "order").alias("seq"),
    )


def since_last_delete(events: DataFrame, shape: Shape) -> DataFrame:
    """The events of each key from its last delete on, by the columns `deleted` and `order`, and the key's images."""
    last_delete = F.max(F.when(F.col("deleted"), F.col("order"))).over(Window.partitionBy(*list_key_images(shape)))
    return events.withColumn("last_delete", last_delete).where("last_delete is null or order >= last_delete")


def said(place: int) -> str:
    """The column of folded events that says whether any of them brings the table's column at a place."""
    return f"said{place}"


def brought(places: Sequence[int]) -> list[Sql]:
    """Aggregates that say of columns which events may lack whether any event brings them."""
    any_has = "bool_or(gives AND {has})"
    return [alias_as(fill_statement(any_has, has=quote_name(present.flag(i))), said(i)) for i in places]


def blend(model: Model, joined: DataFrame, shape: Shape) -> DataFrame:
    """What `fold` gives, with the part in it of rows that are there and were not deleted meanwhile."""
    return joined.withColumns({f"a{i}": F.expr(value) for i, value in blended(model, shape).items()})


def folded(model: Model, shape: Shape, only: Sequence[str] = FUNCTIONS) -> dict[int, Sql]:
    """The aggregates of columns, by their places; only of those with some functions."""
    functions, places = _functions(model, shape).items(), present.flags(model, shape)
    return {
        i: _typed(_FOLDED[function], i, shape, has=present.has(i, places))
        for i, function in functions
        if function in only
    }


def blended(model: Model, shape: Shape, only: Sequence[str] = FUNCTIONS) -> dict[int, Sql]:
    """The values of columns where a row is there, or is not, by their places; only of those with some functions."""
    case = "CASE WHEN has_before AND NOT reset THEN {blended} ELSE {a} END"
    functions, places = _functions(model, shape).items(), present.flags(model, shape)
    is_said = {i: quote_name(said(i)) if i in places else quote_name(GIVES) for i, _ in functions}
    return {
        i: fill_statement(case, blended=_typed(_BLENDED[function], i, shape, said=is_said[i]), a=quote_name(f"a{i}"))
        for i, function in functions
        if function in only
    }


def _functions(model: Model, shape: Shape) -> dict[int, str]:
    """The function of each column outside the key, by its place."""
    config = model.config
    named = {i: get_function(config.merge_columns, config.on_match, of.name) for i, of in enumerate(shape.columns)}
    return {i: function for i, function in named.items() if not shape.is_key(shape.columns[i].name)}


def _typed(template: LiteralString, place: int, shape: Shape, **parts: Sql) -> Sql:
    value = fill_statement(template, a=quote_name(f"a{place}"), b=quote_name(f"b{place}"), **parts)
    return fill_statement("CAST({value} AS {kind})", value=value, kind=type_name(shape.columns[place].type))
