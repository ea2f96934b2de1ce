"""Partial events: an event may lack some columns; in these columns the row keeps its values.

An event does not lack a column in which it has a null: null is then the new value. Either the column of the query that
the option `columns_to_update` names lists the columns that an event has, or the marker `unavailable_value` stands in
the columns that it lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import OWN_PREFIX, POSITION, Column, is_same_name
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.sources.unavailable import list_marker_texts, to_base64, to_byte_numbers, to_uuid
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.event_rules import select_optional_columns
from arctic_runtime.spark.changes.diff import name_provided_flag
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    replace_columns,
    select_from,
    type_name,
)
from arctic_runtime.spark.tables.rows.frames import format_examples, list_frame_columns, to_column
from arctic_runtime.sql.types import Array, Map, Primitive, Struct, Type, read_type

_LISTED = "__arctic_listed"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


def name_presence_flag(position: int) -> str:
    """Returns the name of the flag column that says whether an event has the table's column at `position`."""
    return f"{OWN_PREFIX}has{position}"


def has_column(position: int, partial: Sequence[int]) -> Sql:
    """Builds the condition that an event has the table's column at `position`, or true if every event has it.

    `partial` are the positions of the columns that events may lack.
    """
    return quote_name(name_presence_flag(position)) if position in partial else Sql("true")


def fold_flags(partial: Sequence[int], counts: Sql) -> list[Sql]:
    """Builds for each position in `partial` the aggregate of whether any event has the column.

    Only events that meet the condition `counts` are considered.
    """
    template = "bool_or({counts} AND {has})"
    return [
        alias_as(fill_statement(template, counts=counts, has=quote_name(name_presence_flag(i))), name_provided_flag(i))
        for i in partial
    ]


def find_positions(model: Model, shape: Shape) -> list[int]:
    """Returns the positions of the table's columns that events may lack; none if all events are whole rows."""
    if not model.config.has_partial_events:
        return []
    given = {column.lower() for column in shape.given}
    brought = {column.name for column in select_optional_columns(model, shape.columns)}
    return [i for i, kept in enumerate(shape.columns) if kept.name in brought and kept.name.lower() in given]


def add_flags(model: Model, shape: Shape, partial: Sequence[int], events: Sql, columns: Sequence[Column]) -> Sql:
    """Builds the query that adds a flag column for each position in `partial`: whether the event has the column.

    Values in columns that the event lacks become null. `columns` are those of `events`.
    """
    if not partial:
        return events
    own = {column.name.lower(): column for column in columns}
    sources = {i: own[shape.columns[i].name.lower()] for i in partial}
    listed_columns = select_from(events, [Sql("*"), alias_as(_list_names(model, columns), _LISTED)])
    flags = [alias_as(_has_source(model, source), name_presence_flag(i)) for i, source in sources.items()]
    flagged = select_from(listed_columns, [Sql("*"), *flags])
    values = {
        source.name: fill_statement(
            "CASE WHEN {has} THEN {value} END", has=quote_name(name_presence_flag(i)), value=quote_name(source.name)
        )
        for i, source in sources.items()
    }
    return replace_columns(flagged, values, drop=(_LISTED,))


def count_unknown(model: Model, events: DataFrame) -> list[Expression]:
    """Builds the aggregate that counts events whose `columns_to_update` names unknown columns.

    The list is empty if the model does not set that option.
    """
    if model.config.columns_to_update is None:
        return []
    return [F.count_if(_names_others(model, events)).alias("unknown_columns")]


def raise_unknown(model: Model, events: DataFrame, count: int) -> NoReturn:
    """Raises DataError, with examples, for `count` events whose `columns_to_update` names unknown columns."""
    own = model.config.columns_to_update
    assert own is not None
    key = [to_column(part) for part in model.config.primary_key]
    rows = events.where(_names_others(model, events)).select(*key, to_column(own)).limit(3).collect()
    names = ", ".join(
        kept.name for kept in list_frame_columns(events) if not kept.name.startswith((OWN_PREFIX, POSITION))
    )
    raise DataError(
        f"{model.table}: `columns_to_update: {own}` of {count} events names columns that the query does not have; "
        "nothing was written.\n"
        f"{format_examples(rows)}",
        expected=f"names among {names}",
        fix=(
            "write the names as the query has them; leave out columns that the table does not need with "
            "`array_intersect`"
        ),
    )


def _names_others(model: Model, events: DataFrame) -> Expression:
    columns = list_frame_columns(events)
    known = join_parts(quote_text(kept.name.lower()) for kept in columns)
    named = _list_names(model, columns)
    others = fill_statement("size(array_except({named}, array({known}))) > 0", named=named, known=known)
    return F.coalesce(F.expr(others), F.lit(False))


def _list_names(model: Model, columns: Sequence[Column]) -> Sql:
    """Builds the array of the names, in lower case, of the columns that an event has; null if it has all columns."""
    own = model.config.columns_to_update
    if own is None:
        return Sql("CAST(NULL AS array<string>)")
    named = next(column for column in columns if is_same_name(column.name, own))
    match read_type(named.type):
        case Struct(fields):
            return _list_true_fields(own, [field for field, _ in fields])
        case Map():
            names = fill_statement("map_keys(map_filter({own}, (x, is_there) -> is_there))", own=quote_name(own))
        case _:
            names = quote_name(own)
    return fill_statement("transform(array_compact({names}), x -> lower(x))", names=names)


def _list_true_fields(own: str, fields: list[str]) -> Sql:
    each = [
        fill_statement(
            "CASE WHEN {field} THEN {named} END", field=quote_name(own, field), named=quote_text(field.lower())
        )
        for field in fields
    ]
    return fill_statement(
        "CASE WHEN {own} IS NOT NULL THEN array_compact(array({each})) END", own=quote_name(own), each=join_parts(each)
    )


def _has_source(model: Model, source: Column) -> Sql:
    is_named = fill_statement(
        "({all} IS NULL OR array_contains({all}, {own}))", all=quote_name(_LISTED), own=quote_text(source.name.lower())
    )
    marker = model.config.unavailable_value
    forms = [] if marker is None else list(_match_marker(quote_name(source.name), source.type, marker))
    if not forms:
        return is_named
    parts = {"is_named": is_named, "is_marker": join_parts(forms, " OR ")}
    return fill_statement("({is_named} AND NOT coalesce({is_marker}, false))", **parts)


def _match_marker(value: Sql, kind: str, marker: str) -> Iterator[Sql]:
    """Yields conditions that `value` is the `marker`: one for each form that the marker has in the SQL type `kind`."""
    match read_type(kind):
        case Primitive("string"):
            yield fill_statement(
                "{value} IN ({texts})", value=value, texts=join_parts(map(quote_text, list_marker_texts(marker)))
            )
        case Map(Primitive("string"), Primitive("string")):
            parts = {"value": value, "marker": quote_text(marker)}
            yield fill_statement("(size({value}) = 1 AND try_element_at({value}, {marker}) = {marker})", **parts)
        case other:
            for form in _list_marker_values(other, marker):
                parts = {"value": value, "form": form, "kind": type_name(kind)}
                yield fill_statement("{value} = CAST({form} AS {kind})", **parts)


def _list_marker_values(kind: Type, marker: str) -> Iterator[Sql]:
    match kind:
        case Primitive("binary"):
            yield _decode_marker(marker)
        case Array(Primitive("string")):
            for form in (marker, to_base64(marker), to_uuid(marker)):
                yield fill_statement("array({form})", form=quote_text(form))
        case Array(Primitive("binary")):
            yield fill_statement("array({bytes})", bytes=_decode_marker(marker))
        case Array(Primitive(element)) if element in _NUMBERS:
            yield fill_statement("array({numbers})", numbers=join_parts(map(quote_number, to_byte_numbers(marker))))


def _decode_marker(marker: str) -> Sql:
    return fill_statement("unbase64({marker})", marker=quote_text(to_base64(marker)))
