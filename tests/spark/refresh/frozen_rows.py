"""The rule of `frozen_where` as a model in Python: the rows that a table has after a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Row = tuple[Any, ...]
Table = Mapping[Any, Row]
"""Rows of a table or a query, by their key."""


def follow(table: Table, query: Table, is_frozen: Callable[[Row], bool]) -> dict[Any, Row]:
    """The rows of a table after a run that brings it to the rows of its query, as far as it may."""
    after: dict[Any, Row] = {}
    for key in {*table, *query}:
        old, new = table.get(key), query.get(key)
        kept = is_withheld(old, new, is_frozen) and bool(table)
        row = old if kept else new
        if row is not None:
            after[key] = row
    return after


def count_withheld(table: Table, query: Table, is_frozen: Callable[[Row], bool]) -> int:
    """Number of rows that differ and stay as they are."""
    keys = [key for key in {*table, *query} if table.get(key) != query.get(key)]
    return sum(is_withheld(table.get(key), query.get(key), is_frozen) for key in keys)


def is_withheld(old: Row | None, new: Row | None, is_frozen: Callable[[Row], bool]) -> bool:
    """The old row decides, or the new one if there is no old one."""
    row = old if old is not None else new
    return row is not None and is_frozen(row)
