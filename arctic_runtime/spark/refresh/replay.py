"""Events of a key applied one by one, in their order: for rows that follow from no aggregate of their events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from typing_extensions import LiteralString

from arctic_runtime.ivm.frontend.merge_expressions import NEW, OLD, bind_rows, list_row_columns
from arctic_runtime.model.columns import Column
from arctic_runtime.model.merge_columns import FUNCTIONS, get_function, select_expressions
from arctic_runtime.model.shape import Shape, is_named
from arctic_runtime.model.table import Model
from arctic_runtime.model.types import format_array_type, format_struct_type
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, quote_name, type_name, write_expression
from arctic_runtime.spark.refresh import present
from arctic_runtime.spark.refresh.diff import build_struct, list_key_images

EVENTS = "events"
_OLD, _NEW, _THERE, _STATES, _PLACES = "__arctic_old", "__arctic_new", "there", "states", "places"

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
    return model.config.keep == "all" or bool(select_expressions(model.config.merge_columns))


def arriving(model: Model) -> list[Sql]:
    """The columns of events that expressions use, stored or not, under names of their own."""
    return [alias_as(quote_name(of), own) for of, own in _arriving(model).items()]


def _arriving(model: Model) -> dict[str, str]:
    texts = select_expressions(model.config.merge_columns).values()
    found = dict.fromkeys(of for text in texts for of in list_row_columns(text, NEW))
    return {of: f"n{i}" for i, of in enumerate(found)}


def collect(model: Model, events: DataFrame, shape: Shape) -> DataFrame:
    """The events of each key in their order as an array, EVENTS, and what they leave behind where no row is there."""
    images = (f"a{i}" for i in range(len(shape.columns)))
    has = map(present.flag, present.flags(model, shape))
    own = ["order", "deleted", "sign", "ts", "seq", *_arriving(model).values(), *images, *has]
    found = events.groupBy(*list_key_images(shape)).agg(F.collect_list(F.struct(*own)).alias(EVENTS))
    order = (
        "array_sort({events}, (l, r) -> CASE WHEN l.`order` < r.`order` THEN -1 WHEN l.`order` > r.`order` THEN 1 "
        "ELSE 0 END)"
    )
    ordered = found.withColumn(EVENTS, F.expr(fill_statement(order, events=quote_name(EVENTS)))).withColumn(
        "reset", F.lit(False)
    )
    return _newest(model, ordered, shape, Sql("false"))


def blend(model: Model, joined: DataFrame, shape: Shape) -> DataFrame:
    """What `collect` gives, applied to the rows that are there; with `keep: all`, a row for each change of a row."""
    there = Sql("has_before AND NOT reset")
    return _each(model, joined, shape, there) if model.config.keep == "all" else _newest(model, joined, shape, there)


def _newest(model: Model, rows: DataFrame, shape: Shape, there: Sql) -> DataFrame:
    """One row for each key: what its last event leaves behind, where a row is `there` before, or is not."""
    state = fill_statement(
        "aggregate({events}, {start}, ({old}, {new}) -> {next})",
        events=quote_name(EVENTS),
        start=build_struct(_start(shape, there)),
        next=build_struct(_next(model, shape)),
        old=quote_name(_OLD),
        new=quote_name(_NEW),
    )
    found = rows.withColumn("state", F.expr(state)).withColumn("event", F.element_at(EVENTS, -1))
    return found.withColumns(_images("a", "state", shape) | _said("state", "event")).drop("state", "event")


def _each(model: Model, rows: DataFrame, shape: Shape, there: Sql) -> DataFrame:
    """One row for each event, with the rows before and after it; events of one place in the order are one."""
    parts = {"events": quote_name(EVENTS), "states": quote_name(_STATES), "places": quote_name(_PLACES)}
    is_last = "k = size({events}) - 1 OR NOT (get({events}, k).seq <=> get({events}, k + 1).seq)"
    places = "filter(sequence(0, size({events}) - 1), k -> {is_last})"
    placed = rows.withColumns(
        {
            _STATES: F.expr(_states(model, shape, there)),
            _PLACES: F.expr(
                fill_statement(
                    places, is_last=fill_statement(is_last if shape.is_ordered else "true", **parts), **parts
                )
            ),
        }
    )
    seq = "get({events}, k).seq" if shape.is_ordered else "CAST(k + 1 AS bigint)"
    each = fill_statement(
        "transform({places}, (k, j) -> struct(get({states}, coalesce(get({places}, j - 1) + 1, 0)) AS was, "
        "get({states}, k + 1) AS state, struct(get({events}, k).ts AS ts, {seq} AS seq) AS event))",
        seq=fill_statement(seq, **parts),
        **parts,
    )
    last = "struct(element_at({events}, -1).ts AS ts, element_at({events}, -1).seq AS seq)"
    # What was computed from all events of a key is one change of the row that is there.
    anew = fill_statement(
        "array(struct({row} AS was, element_at({states}, -1) AS state, {last} AS event))",
        row=build_struct(_start(shape, Sql("has_before"))),
        last=fill_statement(last, **parts),
        **parts,
    )
    changes = fill_statement("explode(CASE WHEN reset THEN {anew} ELSE {each} END)", anew=anew, each=each)
    found = placed.withColumn("change", F.expr(changes)).select("*", "change.*").drop("change")
    images = _images("a", "state", shape) | _images("b", "was", shape)
    said = {**_said("state", "event"), "has_before": F.col("was.there")}
    return found.withColumns(images | said).drop("state", "event", "was", _STATES, _PLACES)


def _states(model: Model, shape: Shape, there: Sql) -> Sql:
    """The row before each event, and after the last one."""
    kinds = [(_THERE, "boolean"), *((f"a{i}", kept.type) for i, kept in enumerate(shape.columns))]
    before = build_struct([(quote_name(_OLD, of), of) for of, _ in kinds])
    # Each event adds the row before it, so that the row after it is computed once.
    longer = fill_statement("array_append({states}, {before})", states=quote_name(_OLD, _STATES), before=before)
    none = fill_statement("CAST(array() AS {kind})", kind=type_name(format_array_type(format_struct_type(kinds))))
    return fill_statement(
        "aggregate({events}, {start}, ({old}, {new}) -> {next}, {old} -> {longer})",
        events=quote_name(EVENTS),
        start=build_struct([*_start(shape, there), (none, _STATES)]),
        next=build_struct([*_next(model, shape), (longer, _STATES)]),
        longer=longer,
        old=quote_name(_OLD),
        new=quote_name(_NEW),
    )


def _images(prefix: str, state: str, shape: Shape) -> dict[str, Expression]:
    return {f"{prefix}{i}": F.col(f"{state}.a{i}") for i in range(len(shape.columns))}


def _said(state: str, event: str) -> dict[str, Expression]:
    return {"deleted": ~F.col(f"{state}.there"), "ts": F.col(f"{event}.ts"), "seq": F.col(f"{event}.seq")}


def _start(shape: Shape, there: Sql) -> Iterator[tuple[Sql, str]]:
    """The row before the first event, as far as one is `there`."""
    yield there, _THERE
    for i, kept in enumerate(shape.columns):
        value = Sql("NULL") if there == "false" else quote_name(f"b{i}")
        yield _cast(value, kept), f"a{i}"


def _next(model: Model, shape: Shape) -> Iterator[tuple[Sql, str]]:
    """The row that an event leaves behind, from the row before it."""
    yield fill_statement("NOT {gone}", gone=quote_name(_NEW, "deleted")), _THERE
    for i, kept in enumerate(shape.columns):
        yield _cast(_value(model, i, shape), kept), f"a{i}"


def _value(model: Model, place: int, shape: Shape) -> Sql:
    kept = shape.columns[place]
    parts = {
        "old": quote_name(_OLD, f"a{place}"),
        "new": quote_name(_NEW, f"a{place}"),
        "sign": quote_name(_NEW, "sign"),
    }
    if shape.is_key(kept.name):
        return parts["new"]
    flags = {"gone": quote_name(_NEW, "deleted"), "there": quote_name(_OLD, _THERE)}
    if not is_named(kept.name, shape.given):
        return fill_statement("CASE WHEN {there} AND NOT {gone} THEN {old} END", **flags, **parts)
    function = get_function(model.config.merge_columns, model.config.on_match, kept.name)
    first = fill_statement(_FIRST.get(function, "CASE WHEN {sign} > 0 THEN {new} END"), **parts)
    following = (
        fill_statement(_NEXT[function], **parts) if function in FUNCTIONS else _over_rows(model, function, shape)
    )
    value = fill_statement(
        "CASE WHEN {there} THEN {following} ELSE {first} END", following=following, first=first, **flags
    )
    if place in present.flags(model, shape):
        brought = "CASE WHEN {has} THEN {value} WHEN {there} THEN {old} END"
        value = fill_statement(brought, has=quote_name(_NEW, present.flag(place)), value=value, **flags, **parts)
    return fill_statement("CASE WHEN NOT {gone} THEN {value} END", value=value, **flags)


def _over_rows(model: Model, text: str, shape: Shape) -> Sql:
    stored = {kept.name: f"a{i}" for i, kept in enumerate(shape.columns)}
    return write_expression(bind_rows(text, {OLD: (_OLD, stored), NEW: (_NEW, _arriving(model))}))


def _cast(value: Sql, kept: Column) -> Sql:
    return fill_statement("CAST({value} AS {kind})", value=value, kind=type_name(kept.type))
