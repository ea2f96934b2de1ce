"""What a model of change events says of its columns has to fit the columns of its query."""

from __future__ import annotations

import re

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.merge_expressions import NEW, OLD, columns_named
from arctic_runtime.model.columns import Column, find_column, same_name
from arctic_runtime.model.merge_columns import FUNCTIONS, expressions
from arctic_runtime.model.table import Model
from arctic_runtime.model.types import has_map, read_type
from arctic_runtime.plan.schema import require

_NUMBER = re.compile(r"int|bigint|float|double|decimal\(\d+,\d+\)")


def check_events(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    """Raises ConfigError where merge functions or flows can't work with the columns of the query.

    `query` are all columns of the query, `stored` those of them that the table keeps.
    """
    _check_merge_columns(model, query, stored)
    _check_flows(model, stored)


def _check_merge_columns(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    for name, function in model.config.merge_columns.items():
        require(model, stored, "merge_columns", name)
        column = find_column(stored, name)
        assert column is not None
        if function in FUNCTIONS and not _takes(function, column.type):
            raise ConfigError(
                f"{model.table}: `merge_columns: {name}: {function}` needs {_TAKEN[function]}.\n"
                f"  found: {column.type}\n  what to do: cast the column in the query, or choose another function"
            )
    for text in expressions(model.config.merge_columns).values():
        for row, columns in ((OLD, stored), (NEW, query)):
            for name in columns_named(text, row):
                require(model, columns, f"merge_columns: {text}", name)


def _check_flows(model: Model, stored: tuple[Column, ...]) -> None:
    groups = model.config.sequence_groups
    brought = [of for sequence, columns in groups.items() for of in (sequence, *columns)]
    for name in brought:
        require(model, stored, "sequence_by", name)
    known = (*brought, *model.config.primary_key, *model.config.merge_columns)
    others = [of.name for of in stored if not any(same_name(of.name, name) for name in known)]
    if groups and others:
        raise ConfigError(
            f"{model.table}: {', '.join(others)} belongs to no flow, so the order of its values is unknown.\n"
            f"  expected: each column in the primary key, in `merge_columns`, or in one of {', '.join(groups)} of "
            "`sequence_by`\n  what to do: add it to the columns of its flow, or to `exclude_columns`"
        )


_TAKEN = {"sum": "a number", "union": "an array", "max": "a type with an order", "min": "a type with an order"}


def _takes(function: str, kind: str) -> bool:
    """Whether a function is defined for values of a type."""
    if function == "sum":
        return _NUMBER.fullmatch(kind) is not None
    if function == "union":
        return kind.startswith("array<")
    return function not in ("max", "min") or not has_map(read_type(kind))
