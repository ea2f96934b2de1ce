"""Merge functions: how the value of a row's column is computed from the values of several events of its key."""

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
"""Value of `on_match` → the merge function of all columns without a function of their own."""


def get_function(merge_columns: Mapping[str, str], on_match: str, column: str) -> str:
    """Returns the merge function of a column: one of `FUNCTIONS`, or an SQL expression.

    `merge_columns` maps columns to functions; other columns have the one for `on_match`.
    """
    functions = (function for name, function in merge_columns.items() if is_same_name(name, column))
    return next(functions, ON_MATCH[on_match])


def is_sums_only(merge_columns: Mapping[str, str], on_match: str, columns: Iterable[str]) -> bool:
    """Whether all `columns`, those outside the key, are merged by `sum`, so that single events can be subtracted.

    False if there are no columns.
    """
    functions = [get_function(merge_columns, on_match, column) for column in columns]
    return bool(functions) and all(function == "sum" for function in functions)


def select_expressions(merge_columns: Mapping[str, str]) -> dict[str, str]:
    """Returns the columns whose merge function is an SQL expression, with this expression."""
    return {name: function for name, function in merge_columns.items() if function not in FUNCTIONS}
