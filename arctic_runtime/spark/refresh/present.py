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
from arctic_runtime.model.unavailable import base64_of, numbers_of, texts_of, uuid_of
from arctic_runtime.plan.event_columns import brought_columns
from arctic_runtime.spark.engine.statement import Sql, listed, name, number, statement, text, type_name
from arctic_runtime.spark.tables.frames import column, columns_of, examples

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
    brought = {of.name for of in brought_columns(model, shape.columns)}
    return [i for i, of in enumerate(shape.columns) if of.name in brought and of.name.lower() in given]


def marked(model: Model, events: DataFrame, shape: Shape) -> DataFrame:
    """Events with null in the place of each value that they don't have, and the flags under names of our own."""
    places = flags(model, shape)
    if not places:
        return events
    kinds = {of.name.lower(): of for of in columns_of(events)}
    sent = {i: _has(model, kinds[shape.columns[i].name.lower()]) for i in places}
    named = events.withColumn(_LISTED, F.expr(_listed(model, events)))
    known = named.withColumns({_hidden(i): F.expr(has) for i, has in sent.items()})
    values = {i: kinds[shape.columns[i].name.lower()].name for i in places}
    return known.withColumns({of: F.when(F.col(_hidden(i)), column(of)) for i, of in values.items()}).drop(_LISTED)


def shown(model: Model, shape: Shape) -> list[Expression]:
    """The flags of `marked` events under their names."""
    return [F.col(_hidden(i)).alias(flag(i)) for i in flags(model, shape)]


def has(place: int, places: Sequence[int]) -> Sql:
    """Whether an event has the table's column at a place, one of the `places` that it may lack or another one."""
    return name(flag(place)) if place in places else Sql("true")


def counts(model: Model, events: DataFrame) -> list[Expression]:
    """An aggregate of the profile: how many events name columns that the query does not have."""
    if model.config.columns_to_update is None:
        return []
    return [F.count_if(_names_others(model, events)).alias("unknown_columns")]


def raise_unknown(model: Model, events: DataFrame, count: int) -> NoReturn:
    """Raises DataError with some events that name columns which the query does not have."""
    own = model.config.columns_to_update
    assert own is not None
    key = [column(part) for part in model.config.primary_key]
    rows = events.where(_names_others(model, events)).select(*key, column(own)).limit(3).collect()
    names = ", ".join(of.name for of in columns_of(events) if not of.name.startswith((OWN_PREFIX, POSITION)))
    raise DataError(
        f"{model.table}: `columns_to_update: {own}` of {count} events names columns that the query does not have; "
        f"nothing was written.\n{examples(rows)}"
        f"  expected: names among {names}\n"
        "  what to do: write the names as the query has them; leave out columns that the table does not need with "
        "`array_intersect`"
    )


def _hidden(place: int) -> str:
    return f"__arctic_{flag(place)}"


def _names_others(model: Model, events: DataFrame) -> Expression:
    known = listed(text(of.name.lower()) for of in columns_of(events))
    others = statement("size(array_except({named}, array({known}))) > 0", named=_listed(model, events), known=known)
    return F.coalesce(F.expr(others), F.lit(False))


def _listed(model: Model, events: DataFrame) -> Sql:
    """The names of the columns that an event has, in lower case, as an array; null for all."""
    own = model.config.columns_to_update
    if own is None:
        return Sql("CAST(NULL AS array<string>)")
    kind = next(of.type for of in columns_of(events) if of.name.lower() == own.lower())
    match read_type(kind):
        case Struct(fields):
            return _of_fields(own, [field for field, _ in fields])
        case Map():
            names = statement("map_keys(map_filter({own}, (x, is_there) -> is_there))", own=name(own))
        case _:
            names = name(own)
    return statement("transform(array_compact({names}), x -> lower(x))", names=names)


def _of_fields(own: str, fields: list[str]) -> Sql:
    each = [
        statement("CASE WHEN {field} THEN {of} END", field=name(own, field), of=text(field.lower())) for field in fields
    ]
    return statement(
        "CASE WHEN {own} IS NOT NULL THEN array_compact(array({each})) END", own=name(own), each=listed(each)
    )


def _has(model: Model, of: Column) -> Sql:
    is_named = statement(
        "({all} IS NULL OR array_contains({all}, {own}))", all=name(_LISTED), own=text(of.name.lower())
    )
    marker = model.config.unavailable_value
    forms = [] if marker is None else list(_forms(name(of.name), of.type, marker))
    if not forms:
        return is_named
    parts = {"is_named": is_named, "is_marker": listed(forms, " OR ")}
    return statement("({is_named} AND NOT coalesce({is_marker}, false))", **parts)


def _forms(value: Sql, kind: str, marker: str) -> Iterator[Sql]:
    """Whether a value of a type is the marker, in one of the forms that the type has for it."""
    match read_type(kind):
        case Primitive("string"):
            yield statement("{value} IN ({texts})", value=value, texts=listed(map(text, texts_of(marker))))
        case Map(Primitive("string"), Primitive("string")):
            parts = {"value": value, "marker": text(marker)}
            yield statement("(size({value}) = 1 AND try_element_at({value}, {marker}) = {marker})", **parts)
        case of:
            for form in _literals(of, marker):
                parts = {"value": value, "form": form, "kind": type_name(kind)}
                yield statement("{value} = CAST({form} AS {kind})", **parts)


def _literals(kind: Type, marker: str) -> Iterator[Sql]:
    match kind:
        case Primitive("binary"):
            yield _bytes(marker)
        case Array(Primitive("string")):
            for of in (marker, base64_of(marker), uuid_of(marker)):
                yield statement("array({of})", of=text(of))
        case Array(Primitive("binary")):
            yield statement("array({of})", of=_bytes(marker))
        case Array(Primitive(of)) if of in _NUMBERS:
            yield statement("array({numbers})", numbers=listed(map(number, numbers_of(marker))))


def _bytes(marker: str) -> Sql:
    return statement("unbase64({of})", of=text(base64_of(marker)))
