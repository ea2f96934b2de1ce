"""What it takes to analyse a query grows as the query does."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import analyse_query
from benchmarks.wide_models import wide_query


def _calls(columns: int, steps: int) -> int:
    """How many functions are called for a query of this size; of those written in C each argument counts as one."""
    sql, relations = wide_query(columns, steps)
    analyse_query(sql, relations, {}, "lake", "raw")
    calls = 0

    def count(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        analyse_query(sql, relations, {}, "lake", "raw")
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(("small", "large"), [((15, 6), (60, 6)), ((40, 4), (40, 36))], ids=["columns", "steps"])
def test_the_work_of_an_analysis_grows_with_the_columns_and_the_named_queries(
    small: tuple[int, int], large: tuple[int, int]
) -> None:
    """Each step selects all columns of those below, and a few more."""
    (columns, steps), (more_columns, more_steps) = small, large
    times = more_columns / columns * (24 + more_steps) / (24 + steps)
    assert _calls(*large) < 1.4 * times * _calls(*small)


def test_a_chain_of_named_queries_that_each_read_the_last_twice_is_refused_at_once() -> None:
    _, relations = wide_query(1, 0)
    chain = [f"s{step} as (select a.id from s{step - 1} a, s{step - 1} b where a.id = b.id)" for step in range(1, 40)]
    sql = f"with s0 as (select id from t0), {', '.join(chain)} select collect_list(id) as ids from s39"
    with pytest.raises(NotMaintained, match="too large"):
        analyse_query(sql, relations, {}, "lake", "raw")
