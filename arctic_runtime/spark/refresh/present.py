"""Which columns an event has: an event may bring some columns of its row, and the row keeps its values in the others.

A null that an event has is a value. What an event has is said by a column of the query, and by a text in the place of
values that were not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import OWN_PREFIX, POSITION, Column
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.model.types import Array, Map, Primitive, Struct, Type, read_type
from arctic_runtime.model.unavailable import list_marker_texts, to_base64, to_byte_numbers, to_uuid
from arctic_runtime.plan.event_columns import select_optional_columns
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    type_name,
)
from arctic_runtime.spark.tables.frames import format_examples, list_frame_columns, to_column

_LISTED = "__arctic_listed"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


def flag(place: int) -> str:
    """The column of events that says whether an event has the table's column at a place."""
    return f"has{place}"


def flags(model: Model, shape: Shape) -> list[int]:
    """The places of the columns that an event may lack; none where all events are whole rows."""
    if not model.config.has_partial_events:
        return []
    given = {of.lower() for of in shape.given}
    brought = {of.name for of in select_optional_columns(model, shape.columns)}
    return [i for i, of in enumerate(shape.columns) if of.name in brought and of.name.lower() in given]


def marked(model: Model, events: DataFrame, shape: Shape) -> DataFrame:
    """Events with null in the place of each value that they don't have, and the flags under names of our own."""
    places = flags(model, shape)
    if not places:
        return events
    kinds = {of.name.lower(): of for of in list_frame_columns(events)}
    sent = {i: _has(model, kinds[shape.columns[i].name.lower()]) for i in places}
    named = events.withColumn(_LISTED, F.expr(_listed(model, events)))
    known = named.withColumns({_hidden(i): F.expr(has) for i, has in sent.items()})
    values = {i: kinds[shape.columns[i].name.lower()].name for i in places}
    return known.withColumns({of: F.when(F.col(_hidden(i)), to_column(of)) for i, of in values.items()}).drop(_LISTED)


def shown(model: Model, shape: Shape) -> list[Expression]:
    """The flags of `marked` events under their names."""
    return [F.col(_hidden(i)).alias(flag(i)) for i in flags(model, shape)]


def has(place: int, places: Sequence[int]) -> Sql:
    """Whether an event has the table's column at a place, one of the `places` that it may lack or another one."""
    return quote_name(flag(place)) if place in places else Sql("true")


def counts(model: Model, events: DataFrame) -> list[Expression]:
    """An aggregate of the profile: how many events name columns that the query does not have."""
    if model.config.columns_to_update is None:
        return []
    return [F.count_if(_names_others(model, events)).alias("unknown_columns")]


def raise_unknown(model: Model, events: DataFrame, count: int) -> NoReturn:
    """Raises DataError with some events that name columns which the query does not have."""
    own = model.config.columns_to_update
    assert own is not None
    key = [to_column(part) for part in model.config.primary_key]
    rows = events.where(_names_others(model, events)).select(*key, to_column(own)).limit(3).collect()
    names = ", ".join(of.name for of in list_frame_columns(events) if not of.name.startswith((OWN_PREFIX, POSITION)))
    raise DataError(
        f"{model.table}: `columns_to_update: {own}` of {count} events names columns that the query does not have; "
        f"nothing was written.\n{format_examples(rows)}"
        f"  expected: names among {names}\n"
        "  what to do: write the names as the query has them; leave out columns that the table does not need with "
        "`array_intersect`"
    )


def _hidden(place: int) -> str:
    return f"__arctic_{flag(place)}"


def _names_others(model: Model, events: DataFrame) -> Expression:
    known = join_parts(quote_text(of.name.lower()) for of in list_frame_columns(events))
    others = fill_statement(
        "size(array_except({named}, array({known}))) > 0", named=_listed(model, events), known=known
    )
    return F.coalesce(F.expr(others), F.lit(False))


def _listed(model: Model, events: DataFrame) -> Sql:
    """The names of the columns that an event has, in lower case, as an array; null for all."""
    own = model.config.columns_to_update
    if own is None:
        return Sql("CAST(NULL AS array<string>)")
    kind = next(of.type for of in list_frame_columns(events) if of.name.lower() == own.lower())
    match read_type(kind):
        case Struct(fields):
            return _of_fields(own, [field for field, _ in fields])
        case Map():
            names = fill_statement("map_keys(map_filter({own}, (x, is_there) -> is_there))", own=quote_name(own))
        case _:
            names = quote_name(own)
    return fill_statement("transform(array_compact({names}), x -> lower(x))", names=names)


def _of_fields(own: str, fields: list[str]) -> Sql:
    each = [
        fill_statement("CASE WHEN {field} THEN {of} END", field=quote_name(own, field), of=quote_text(field.lower()))
        for field in fields
    ]
    return fill_statement(
        "CASE WHEN {own} IS NOT NULL THEN array_compact(array({each})) END", own=quote_name(own), each=join_parts(each)
    )


def _has(model: Model, of: Column) -> Sql:
    is_named = fill_statement(
        "({all} IS NULL OR array_contains({all}, {own}))", all=quote_name(_LISTED), own=quote_text(of.name.lower())
    )
    marker = model.config.unavailable_value
    forms = [] if marker is None else list(_forms(quote_name(of.name), of.type, marker))
    if not forms:
        return is_named
    parts = {"is_named": is_named, "is_marker": join_parts(forms, " OR ")}
    return fill_statement("({is_named} AND NOT coalesce({is_marker}, false))", **parts)


def _forms(value: Sql, kind: str, marker: str) -> Iterator[Sql]:
    """Whether a value of a type is the marker, in one of the forms that the type has for it."""
    match read_type(kind):
        case Primitive("string"):
            yield fill_statement(
                "{value} IN ({texts})", value=value, texts=join_parts(map(quote_text, list_marker_texts(marker)))
            )
        case Map(Primitive("string"), Primitive("string")):
            parts = {"value": value, "marker": quote_text(marker)}
            yield fill_statement("(size({value}) = 1 AND try_element_at({value}, {marker}) = {marker})", **parts)
        case of:
            for form in _literals(of, marker):
                parts = {"value": value, "form": form, "kind": type_name(kind)}
                yield fill_statement("{value} = CAST({form} AS {kind})", **parts)


def _literals(kind: Type, marker: str) -> Iterator[Sql]:
    match kind:
        case Primitive("binary"):
            yield _bytes(marker)
        case Array(Primitive("string")):
            for of in (marker, to_base64(marker), to_uuid(marker)):
                yield fill_statement("array({of})", of=quote_text(of))
        case Array(Primitive("binary")):
            yield fill_statement("array({of})", of=_bytes(marker))
        case Array(Primitive(of)) if of in _NUMBERS:
            yield fill_statement("array({numbers})", numbers=join_parts(map(quote_number, to_byte_numbers(marker))))


def _bytes(marker: str) -> Sql:
    return fill_statement("unbase64({of})", of=quote_text(to_base64(marker)))
