"""Which columns take back what an event brought."""

from __future__ import annotations

import pytest

from arctic_runtime.model.merge_columns import is_sums_only


@pytest.mark.parametrize(
    ("functions", "columns", "expected"),
    [
        ({"total": "sum", "n": "sum"}, ["total", "N"], True),
        ({"total": "sum", "high": "max"}, ["total", "high"], False),
        ({"total": "sum"}, ["total", "name"], False),
        ({"total": "old.total + new.total"}, ["total"], False),
        ({}, ["name"], False),
        ({}, [], False),
    ],
)
def test_rows_of_nothing_but_sums_add_up(functions: dict[str, str], columns: list[str], expected: bool) -> None:
    assert is_sums_only(functions, "replace", columns) is expected
