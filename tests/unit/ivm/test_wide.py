"""What it takes to analyse a query, and to plan how its table follows changes, grows as the query does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import FrameType

import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.strategies.maintain import Facts, plan_maintenance
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from benchmarks.wide_models import wide_query

TABLE, OTHER = "lake.raw.t", "lake.raw.u"
QUERIES: Mapping[str, Callable[[Sequence[str]], str]] = {
    "projection": lambda names: f"select id, {_join(names, '{0} + 1 as {0}')} from t",
    "filter": lambda names: f"select * from t where {_join(names, '{0} > 0', ' and ')}",
    "join": lambda names: f"select t.id, {_join(names, 't.{0} + u.{0} as {0}')} from t left join u on u.id = t.c0",
    "semi join": lambda names: f"select id, {_join(names, '{0} + 1 as {0}')} from t where c0 in (select id from u)",
    "sums": lambda names: f"select c0, {_join(names, 'sum({0}) as {0}_sum')} from t group by c0",
    "extremes": lambda names: f"select c0, {_join(names, 'max({0}) as {0}_max')} from t group by c0",
    "groups": lambda names: f"select {_join(names, '{0}')}, count(*) as n from t group by {_join(names, '{0}')}",
    "windows": lambda names: f"select id, {_join(names, 'sum({0}) over (partition by c0) as {0}')} from t",
    "distinct rows": lambda names: f"select distinct id, {_join(names, '{0}')} from t",
    "union": lambda names: (
        f"select id, {_join(names, '{0}')} from t union all select -id, {_join(names, '{0}')} from u"
    ),
}
"""Queries of each kind over tables with columns of such names."""


def _join(names: Sequence[str], pattern: str, separator: str = ", ") -> str:
    return separator.join(pattern.format(name) for name in names)


def _count_calls(action: Callable[[], object]) -> int:
    """How many functions an action calls the second time; of those written in C each argument counts as one."""
    action()
    calls = 0

    def count(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


def _analyse(columns: int, steps: int) -> int:
    sql, relations = wide_query(columns, steps)
    return _count_calls(lambda: analyse_query(sql, relations, {}, "lake", "raw"))


def _plan(query: str, columns: int, is_paired: bool, few_rows: bool) -> int:
    """The work of an analysis, of a plan that follows the first table, and of its statements."""
    names = [f"c{place}" for place in range(columns)]
    relation = Relation((Column("id", "bigint"), *(Column(name, "bigint") for name in names)), key=("id",))
    sql, relations = QUERIES[query](names), {TABLE: relation, OTHER: relation}
    changed = frozenset({TableName(*TABLE.split("."))})

    def plan() -> None:
        analysed = analyse_query(sql, relations, {}, "lake", "raw")
        outputs = [made for _, made in analysed.outputs]
        key = outputs[:-1] if query == "groups" else outputs[:1]
        paired = changed if is_paired else frozenset[TableName]()
        facts = Facts(types=analysed.types, paired=paired, small=changed, few_rows=few_rows)
        maintenance = plan_maintenance(analysed.tree, tuple(key), changed, facts)
        for tree in (getattr(maintenance, part.name) for part in fields(maintenance)):
            if isinstance(tree, Node):
                render_sql(tree)

    return _count_calls(plan)


@pytest.mark.parametrize(("small", "large"), [((15, 6), (60, 6)), ((40, 4), (40, 36))], ids=["columns", "steps"])
def test_the_work_of_an_analysis_grows_with_the_columns_and_the_named_queries(
    small: tuple[int, int], large: tuple[int, int]
) -> None:
    """Each step selects all columns of those below, and a few more."""
    (columns, steps), (more_columns, more_steps) = small, large
    times = more_columns / columns * (24 + more_steps) / (24 + steps)
    assert _analyse(*large) < 1.4 * times * _analyse(*small)


@pytest.mark.parametrize(
    ("is_paired", "few_rows"), [(False, False), (True, False), (False, True)], ids=["deltas", "pairs", "state"]
)
@pytest.mark.parametrize("query", QUERIES)
def test_the_work_of_a_plan_grows_with_the_columns(query: str, is_paired: bool, few_rows: bool) -> None:
    assert _plan(query, 80, is_paired, few_rows) < 4.4 * _plan(query, 20, is_paired, few_rows)


def test_a_chain_of_named_queries_that_each_read_the_last_twice_is_refused_at_once() -> None:
    _, relations = wide_query(1, 0)
    chain = [f"s{step} as (select a.id from s{step - 1} a, s{step - 1} b where a.id = b.id)" for step in range(1, 40)]
    sql = f"with s0 as (select id from t0), {', '.join(chain)} select collect_list(id) as ids from s39"
    with pytest.raises(NotMaintained, match="too large"):
        analyse_query(sql, relations, {}, "lake", "raw")
