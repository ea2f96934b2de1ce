"""The functions by which a column of a row takes values from events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from arctic_runtime.model.columns import is_same_name

COMMUTATIVE: Final = ("sum", "max", "min", "union")
"""Functions whose result is the same in whatever order the events of a key are read."""

BY_ORDER: Final = ("first", "last", "last_non_null")
"""Functions whose result depends on the order of the events of a key."""

FUNCTIONS: Final = (*COMMUTATIVE, *BY_ORDER)

ON_MATCH: Final = {"replace": "last", "update": "last_non_null", "ignore": "first"}
"""What `on_match` means for each column that has no function of its own."""


def get_function(merge_columns: Mapping[str, str], on_match: str, column: str) -> str:
    """The function of a column, one of `FUNCTIONS` or an SQL expression."""
    functions = (function for name, function in merge_columns.items() if is_same_name(name, column))
    return next(functions, ON_MATCH[on_match])


def is_sums_only(merge_columns: Mapping[str, str], on_match: str, columns: Iterable[str]) -> bool:
    """Whether rows with these columns beside the key are nothing but sums, which take back any event."""
    functions = [get_function(merge_columns, on_match, column) for column in columns]
    return bool(functions) and all(function == "sum" for function in functions)


def select_expressions(merge_columns: Mapping[str, str]) -> dict[str, str]:
    """The columns that have an SQL expression, with it."""
    return {name: function for name, function in merge_columns.items() if function not in FUNCTIONS}
