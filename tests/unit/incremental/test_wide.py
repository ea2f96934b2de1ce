"""What it takes to analyse a query grows as the query does."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from arctic_runtime.plan.incremental.analyse import analyse
from benchmarks.wide_models import wide_query


def _calls(columns: int, steps: int) -> int:
    """How many functions are called for a query of this size; of those written in C each argument counts as one."""
    sql, relations = wide_query(columns, steps)
    analyse(sql, relations, {}, "lake", "raw")
    found = 0

    def count(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        analyse(sql, relations, {}, "lake", "raw")
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize(("small", "large"), [((20, 8), (80, 8)), ((60, 4), (60, 36))], ids=["columns", "steps"])
def test_the_work_of_an_analysis_grows_with_the_columns_and_the_named_queries(
    small: tuple[int, int], large: tuple[int, int]
) -> None:
    """Each step selects all columns of those below, and a few more."""
    (columns, steps), (more_columns, more_steps) = small, large
    times = more_columns / columns * (24 + more_steps) / (24 + steps)
    assert _calls(*large) < 1.4 * times * _calls(*small)
