"""Checks the configuration of a model of change events (`input: changes`) against the columns of its query."""

from __future__ import annotations

import re

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.configured_expressions import NEW, OLD, list_row_columns
from arctic_runtime.model.columns import RESERVED, Column, find_column, is_same_name
from arctic_runtime.model.merge_columns import FUNCTIONS, select_expressions
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.schema import require_column
from arctic_runtime.sql.types import Array, Map, Primitive, Struct, has_map, read_type

_ORDERABLE = re.compile(r"bigint|int|decimal\(\d+,\d+\)|timestamp|timestamp_ntz|date|string|double|float")
_NUMBER = re.compile(r"int|bigint|float|double|decimal\(\d+,\d+\)")


def select_stored_columns(model: Model, query: tuple[Column, ...]) -> tuple[Column, ...]:
    """Selects the columns of `query` that the table stores.

    Left out are `exclude_columns`, the column of `columns_to_update` and, for a model of change events, columns with
    reserved names such as `_action`.
    """
    dropped = {name.lower() for name in (*model.config.exclude_columns, model.config.columns_to_update) if name}
    if model.config.input == "changes":
        dropped |= set(RESERVED)
    return tuple(column for column in query if column.name.lower() not in dropped)


def find_sequence_type(model: Model, query: tuple[Column, ...]) -> str:
    """Returns the type of `_seq`: the type of the `sequence_by` column if there is one, else bigint.

    Raises ConfigError if a column that orders events is missing, or is of a type without an order.
    """
    config = model.config
    named = [name for name in (config.sequence_by, *config.sequence_groups) if name is not None]
    types = [_find_ordered_type(model, query, name) for name in named]
    return types[0] if config.sequence_by is not None else "bigint"


def _find_ordered_type(model: Model, query: tuple[Column, ...], sequence: str) -> str:
    column = find_column(query, sequence)
    if column is None or not _ORDERABLE.fullmatch(column.type):
        raise ConfigError(
            f"{model.table}: `sequence_by: {sequence}` must be a number, a date, a timestamp or a string.",
            actual=column.type if column else "no such column",
            fix="cast it in the query",
        )
    return column.type


def check_events(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    """Raises ConfigError if `merge_columns`, `sequence_by` or `columns_to_update` don't fit the columns of the query.

    `query` are all columns of the query, `stored` those that the table stores.
    """
    _check_merge_columns(model, query, stored)
    _check_flows(model, stored)
    _check_columns_to_update(model, query, stored)


def _check_merge_columns(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    for name, function in model.config.merge_columns.items():
        require_column(model, stored, "merge_columns", name)
        column = find_column(stored, name)
        assert column is not None
        if function in FUNCTIONS and not _accepts_type(function, column.type):
            raise ConfigError(
                f"{model.table}: `merge_columns: {name}: {function}` needs {_TAKEN[function]}.",
                actual=column.type,
                fix="cast the column in the query, or choose another function",
            )
    for text in select_expressions(model.config.merge_columns).values():
        for row, columns in ((OLD, stored), (NEW, query)):
            for name in list_row_columns(text, row):
                require_column(model, columns, f"merge_columns: {text}", name)


def _check_flows(model: Model, stored: tuple[Column, ...]) -> None:
    groups = model.config.sequence_groups
    brought = [column for sequence, columns in groups.items() for column in (sequence, *columns)]
    for name in brought:
        require_column(model, stored, "sequence_by", name)
    known = (*brought, *model.config.primary_key, *model.config.merge_columns)
    others = [column.name for column in stored if not any(is_same_name(column.name, name) for name in known)]
    if groups and others:
        raise ConfigError(
            f"{model.table}: {', '.join(others)} belongs to no flow, so the order of its values is unknown.",
            expected=(
                f"each column in the primary key, in `merge_columns`, or in one of {', '.join(groups)} of `sequence_by`"
            ),
            fix="add it to the columns of its flow, or to `exclude_columns`",
        )


def select_optional_columns(model: Model, stored: tuple[Column, ...]) -> tuple[Column, ...]:
    """Selects the columns of `stored` that an event may lack: all but the primary key and columns that order events."""
    config = model.config
    always = (*config.primary_key, *filter(None, (config.sequence_by,)), *config.sequence_groups)
    return tuple(column for column in stored if not any(is_same_name(column.name, name) for name in always))


def _check_columns_to_update(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    own = model.config.columns_to_update
    if own is None:
        return
    require_column(model, query, "columns_to_update", own)
    column = find_column(query, own)
    assert column is not None
    match read_type(column.type):
        case Array(Primitive("string")) | Map(Primitive("string"), Primitive("boolean")):
            return
        case Struct(fields) if all(kind == Primitive("boolean") for _, kind in fields):
            _check_mask(model, [name for name, _ in fields], query, stored)
        case _:
            raise ConfigError(
                f"{model.table}: `columns_to_update: {own}` can't say which columns an event has.",
                expected=(
                    "array<string>, the names of the columns; or a mask: map<string,boolean>, or a struct of booleans "
                    "with a field for each column"
                ),
                actual=column.type,
                fix="make an array of names in the query, for example with `filter` or `split`",
            )


def _check_mask(model: Model, fields: list[str], query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    """Raises ConfigError if a mask lacks a field for an optional column, or has a field without a column.

    A mask is a struct with a boolean field for each column, which is true if the event has a value for the column.
    `fields` are the names of its fields.
    """
    columns = select_optional_columns(model, stored)
    lacking = [column.name for column in columns if not any(is_same_name(column.name, name) for name in fields)]
    strange = [name for name in fields if find_column(query, name) is None]
    if lacking or strange:
        raise ConfigError(
            f"{model.table}: the mask `columns_to_update: {model.config.columns_to_update}` does not fit the query.\n"
            f"  columns without a field: {', '.join(lacking) or 'none'}\n"
            f"  fields without a column: {', '.join(strange) or 'none'}",
            fix="give the mask a boolean field for each stored column outside the key",
        )


_TAKEN = {"sum": "a number", "union": "an array", "max": "a type with an order", "min": "a type with an order"}


def _accepts_type(function: str, kind: str) -> bool:
    """Whether the merge function `function` is defined for values of the type `kind`."""
    if function == "sum":
        return _NUMBER.fullmatch(kind) is not None
    if function == "union":
        return kind.startswith("array<")
    return function not in ("max", "min") or not has_map(read_type(kind))
