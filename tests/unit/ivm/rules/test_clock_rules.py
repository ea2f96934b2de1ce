"""Conditions on the time: what enters and leaves as time passes, under trees of every operator, with any batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import duckdb
import pytest
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st

from arctic_runtime.ivm.algebra.clock import CLOCK, NOW, enter_by_clock, leave_by_clock, pin_clock, show_clock
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Projection,
    SemiJoin,
    UnionAll,
    WindowColumns,
    list_columns,
    list_scans,
)
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from arctic_runtime.ivm.rules.apply import derive_delta, derive_touched
from arctic_runtime.ivm.rules.terms import read_image, require_term
from tests.unit.ivm import duck
from tests.unit.ivm.rules.test_rules import BATCHES, COPIES, OLD, ON, ON_MORE, PAIRS, H, L, R
from tests.unit.ivm.trees import Batch, condition, difference, load, netted, sources_of, sql

LATE = condition("`l.b` >= arctic_clock() - 1")
BETWEEN = condition("`l.b` between arctic_clock() - 1 and arctic_clock()")
ODD = condition("coalesce(`l.b`, 0) * 2 = arctic_clock() or `l.a` is null")
OLDER = condition("`h.b` < arctic_clock()")
GROUPS = Aggregate(Filter(H, OLDER), ("h.a",), (("n", condition("count(*)")), ("sum", condition("sum(`h.b`)"))))

TREES: dict[str, Node] = {
    "filter": Filter(L, LATE),
    "between": Filter(L, BETWEEN),
    "no comparison": Filter(L, ODD),
    "with another condition": Filter(L, condition("`l.b` >= arctic_clock() - 1 and `l.a` = 1")),
    "two filters": Filter(Filter(L, LATE), condition("`l.a` < arctic_clock()")),
    "project": Projection(Filter(H, OLDER), COPIES),
    "left side of a join": Join("inner", Filter(L, LATE), R, ON_MORE),
    "right side of a left join": Join("left", R, Filter(L, LATE), condition("`r.id` = `l.a`")),
    "both sides": Join("full", Filter(L, BETWEEN), Filter(R, condition("`r.b` < arctic_clock()")), ON),
    "above a join": Filter(Join("inner", L, R, ON), condition("`l.b` + `r.b` >= arctic_clock()")),
    "above a left join": Filter(Join("left", L, R, ON), condition("coalesce(`r.b`, 1) >= arctic_clock()")),
    "semi join": SemiJoin("semi", L, Filter(R, condition("`r.b` <= arctic_clock()")), ON),
    "anti join": SemiJoin("anti", Filter(L, LATE), Filter(H, OLDER), condition("`l.a` = `h.a`")),
    "groups": GROUPS,
    "having": Filter(GROUPS, condition("`n` >= arctic_clock()")),
    "distinct": Distinct(Projection(Filter(H, OLDER), COPIES)),
    "window": WindowColumns(Filter(L, LATE), ("l.a",), (("top", condition("max(`l.b`) over (partition by `l.a`)")),)),
    "union": UnionAll((Projection(Filter(H, OLDER), COPIES), Projection(Filter(L, LATE), PAIRS)), ("c", "d")),
}

TIMES = [(0, 0), (0, 1), (1, 0), (1, 2), (0, 9)]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


def set_time(con: duckdb.DuckDBPyConnection, before: int, now: int) -> None:
    con.execute(f"create or replace macro arctic_clock() as {now}")
    con.execute(f"create or replace macro arctic_clock_before() as {before}")


QUICK = ("nothing", "a group moved through null", "keys moved")


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in BATCHES if name not in QUICK)]
)
@pytest.mark.parametrize("pushed", [False, True])
def test_time_and_a_batch_are_followed_by_every_operator(
    con: duckdb.DuckDBPyConnection, name: str, pushed: bool
) -> None:
    load(con, Batch(OLD, {**OLD, **BATCHES[name]}))
    for (operator, given_tree), times in product(TREES.items(), TIMES):
        set_time(con, *times)
        tree = push_down_filters(given_tree) if pushed else given_tree
        sources = sources_of(tree) | {CLOCK}
        rows = [duck.fetch(con, sql(part)) for part in (tree, read_image(tree, "old", sources))]
        change = difference(*rows)
        assert netted(duck.fetch(con, sql(require_term(derive_delta(tree, sources))))) == change, (operator, times)
        for names in (list_columns(tree), list_columns(tree)[:1]):
            places = [list_columns(tree).index(column) for column in names]
            touched = duck.fetch(con, sql(require_term(derive_touched(tree, names, sources))))
            assert set(touched) >= {tuple(row[place] for place in places) for row in change}, (operator, times)


def test_time_alone_reads_no_changes() -> None:
    delta = require_term(derive_delta(Join("inner", Filter(L, LATE), R, ON_MORE), frozenset({CLOCK})))
    assert {scan.image for scan in list_scans(delta)} == {"new"}


def test_conditions_that_skip_files_stay_comparisons() -> None:
    assert enter_by_clock(LATE).sql() == ('"l.b" >= ARCTIC_CLOCK() - 1 AND "l.b" < ARCTIC_CLOCK_BEFORE() - 1').replace(
        "ARCTIC_CLOCK()", "ARCTIC_CLOCK()"
    )
    assert "NOT" not in leave_by_clock(BETWEEN).sql()
    assert "NOT COALESCE" in enter_by_clock(ODD).sql()


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        ("select 1 from t where d >= current_date - interval 30 days", "d >= {date} - interval 30 days"),
        ("select 1 from t where d >= current_date() and t < now( )", "d >= {date} and t < {time}"),
        ("select 1 from t where t < CURRENT_TIMESTAMP", "t < {time}"),
        ("select 1 from t where t < localtimestamp() -- now()", "t < {ntz} -- now()"),
        ("select 1 from t where t.now = 'now()' and `now` > 1", "t.now = 'now()' and `now` > 1"),
        ("select 1 from t where c.current_date = 1", "c.current_date = 1"),
    ],
)
def test_calls_of_the_clock_are_pinned_and_nothing_else_changes(text: str, pinned: str) -> None:
    time = "TIMESTAMP_MICROS(arctic_clock())"
    meant = {"time": time, "date": f"CAST({time} AS DATE)", "ntz": f"CAST({time} AS TIMESTAMP_NTZ)"}
    assert pin_clock(text) == "select 1 from t where " + pinned.format(**meant)


def test_the_outline_shows_the_clock_as_users_write_it() -> None:
    text = pin_clock("d > current_date and t < now() and n < localtimestamp()").replace(NOW.lower(), NOW)
    assert show_clock(text) == "d > current_date and t < now() and n < localtimestamp()"


@settings(max_examples=50)
@given_values(st.lists(st.sampled_from(["now()", "current_date", "x", "'now()'", "`now`", "1"]), min_size=1))
def test_a_pinned_query_has_no_clock_left(parts: list[str]) -> None:
    text = f"select {', '.join(parts)}"
    assert pin_clock(pin_clock(text)) == pin_clock(text)
