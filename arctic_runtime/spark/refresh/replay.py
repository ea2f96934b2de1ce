"""Events of a key applied one by one, in their order: for rows that follow from no aggregate of their events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from typing_extensions import LiteralString

from arctic_runtime.ivm.frontend.merge_expressions import NEW, OLD, columns_named, over_rows
from arctic_runtime.model.columns import Column
from arctic_runtime.model.merge_columns import FUNCTIONS, expressions, function_of
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import Sql, aliased, expression, name, statement, type_name
from arctic_runtime.spark.refresh.diff import key_images, struct

EVENTS = "events"
_OLD, _NEW, _THERE = "__arctic_old", "__arctic_new", "there"

_FIRST: Mapping[str, LiteralString] = {
    "sum": "{new} * {sign}",
    "union": "CASE WHEN {sign} > 0 THEN array_sort(array_distinct({new})) END",
}
"""Function → the value that the first event of a row gives; others give their own."""

_NEXT: Mapping[str, LiteralString] = {
    "last": "CASE WHEN {sign} > 0 THEN {new} ELSE {old} END",
    "last_non_null": "coalesce(CASE WHEN {sign} > 0 THEN {new} END, {old})",
    "first": "{old}",
    "sum": "coalesce({old} + {new} * {sign}, {old}, {new} * {sign})",
    "max": "greatest({old}, CASE WHEN {sign} > 0 THEN {new} END)",
    "min": "least({old}, CASE WHEN {sign} > 0 THEN {new} END)",
    "union": "CASE WHEN {sign} > 0 THEN coalesce(array_sort(array_union({old}, {new})), {new}, {old}) ELSE {old} END",
}
"""Function → the value that another event makes of an old one."""


def is_replayed(model: Model) -> bool:
    """Whether a model's rows need their events one by one."""
    return bool(expressions(model.config.merge_columns))


def arriving(model: Model) -> list[Sql]:
    """The columns of events that expressions use, stored or not, under names of their own."""
    return [aliased(name(of), own) for of, own in _arriving(model).items()]


def _arriving(model: Model) -> dict[str, str]:
    texts = expressions(model.config.merge_columns).values()
    found = dict.fromkeys(of for text in texts for of in columns_named(text, NEW))
    return {of: f"n{i}" for i, of in enumerate(found)}


def collect(model: Model, events: DataFrame, shape: Shape) -> DataFrame:
    """The events of each key in their order as an array, EVENTS, and what they leave behind where no row is there."""
    images = (f"a{i}" for i in range(len(shape.columns)))
    own = ["order", "deleted", "sign", "ts", "seq", *_arriving(model).values(), *images]
    found = events.groupBy(*key_images(shape)).agg(F.collect_list(F.struct(*own)).alias(EVENTS))
    order = (
        "array_sort({events}, (l, r) -> CASE WHEN l.`order` < r.`order` THEN -1 WHEN l.`order` > r.`order` THEN 1 "
        "ELSE 0 END)"
    )
    ordered = found.withColumn(EVENTS, F.expr(statement(order, events=name(EVENTS))))
    return _replayed(model, ordered.withColumn("reset", F.lit(False)), shape, from_nothing=True)


def blend(model: Model, joined: DataFrame, shape: Shape) -> DataFrame:
    """What `collect` gives, applied to the rows that are there."""
    return _replayed(model, joined, shape, from_nothing=False)


def _replayed(model: Model, rows: DataFrame, shape: Shape, from_nothing: bool) -> DataFrame:
    start = Sql("false") if from_nothing else Sql("has_before AND NOT reset")
    state = statement(
        "aggregate({events}, {start}, ({old}, {new}) -> {next})",
        events=name(EVENTS),
        start=struct([(start, _THERE), *_start(shape, from_nothing)]),
        old=name(_OLD),
        new=name(_NEW),
        next=struct([(statement("NOT {gone}", gone=name(_NEW, "deleted")), _THERE), *_next(model, shape)]),
    )
    last = statement("element_at({events}, -1)", events=name(EVENTS))
    parts = {
        **{f"a{i}": F.expr(name("state", f"a{i}")) for i in range(len(shape.columns))},
        "deleted": ~F.col("state.there"),
        "ts": F.expr(statement("{last}.ts", last=last)),
        "seq": F.expr(statement("{last}.seq", last=last)),
    }
    return rows.withColumn("state", F.expr(state)).withColumns(parts).drop("state")


def _start(shape: Shape, from_nothing: bool) -> Iterator[tuple[Sql, str]]:
    for i, kept in enumerate(shape.columns):
        value = Sql("NULL") if from_nothing else name(f"b{i}")
        yield _cast(value, kept), f"a{i}"


def _next(model: Model, shape: Shape) -> Iterator[tuple[Sql, str]]:
    """The columns of the row that an event leaves behind, from the row before it."""
    for i, kept in enumerate(shape.columns):
        own = name(_NEW, f"a{i}")
        if shape.is_key(kept.name):
            yield own, f"a{i}"
            continue
        function = function_of(model.config.merge_columns, model.config.on_match, kept.name)
        first, following = _values(model, function, i, shape)
        case = "CASE WHEN {gone} THEN NULL WHEN {there} THEN {following} ELSE {first} END"
        parts = {"gone": name(_NEW, "deleted"), "there": name(_OLD, _THERE), "following": following, "first": first}
        yield _cast(statement(case, **parts), kept), f"a{i}"


def _values(model: Model, function: str, place: int, shape: Shape) -> tuple[Sql, Sql]:
    """A column's value after the first event of a row, and after any further one."""
    parts = {"old": name(_OLD, f"a{place}"), "new": name(_NEW, f"a{place}"), "sign": name(_NEW, "sign")}
    first = statement(_FIRST.get(function, "CASE WHEN {sign} > 0 THEN {new} END"), **parts)
    if function in FUNCTIONS:
        return first, statement(_NEXT[function], **parts)
    stored = {kept.name: f"a{i}" for i, kept in enumerate(shape.columns)}
    return first, expression(over_rows(function, {OLD: (_OLD, stored), NEW: (_NEW, _arriving(model))}))


def _cast(value: Sql, kept: Column) -> Sql:
    return statement("CAST({value} AS {kind})", value=value, kind=type_name(kept.type))
