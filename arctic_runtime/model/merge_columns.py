"""Merge functions of the configuration key `merge_columns`.

A merge function computes the value of a column from the column's values in several change events of one key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from arctic_runtime.model.columns import is_same_name

COMMUTATIVE: Final = ("sum", "max", "min", "union")
"""Functions whose result does not depend on the order of the events of a key."""

BY_ORDER: Final = ("first", "last", "last_non_null")
"""Functions whose result depends on the order of the events of a key."""

FUNCTIONS: Final = (*COMMUTATIVE, *BY_ORDER)

ON_MATCH: Final = {"replace": "last", "update": "last_non_null", "ignore": "first"}
"""Maps values of the configuration key `on_match` to the merge function of columns without one in `merge_columns`."""


def get_function(merge_columns: Mapping[str, str], on_match: str, column: str) -> str:
    """Returns the merge function of a column: one of `FUNCTIONS`, or an SQL expression.

    `merge_columns` maps columns to functions; columns that it lacks have the function that `ON_MATCH` has for
    `on_match`.
    """
    functions = (function for name, function in merge_columns.items() if is_same_name(name, column))
    return next(functions, ON_MATCH[on_match])


def is_sums_only(merge_columns: Mapping[str, str], on_match: str, columns: Iterable[str]) -> bool:
    """Whether all `columns`, those outside the key, are merged by `sum`, so that an event can be subtracted again.

    False if there are no such columns.
    """
    functions = [get_function(merge_columns, on_match, column) for column in columns]
    return bool(functions) and all(function == "sum" for function in functions)


def select_expressions(merge_columns: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of `merge_columns` whose merge function is an SQL expression and not one of `FUNCTIONS`."""
    return {name: function for name, function in merge_columns.items() if function not in FUNCTIONS}
