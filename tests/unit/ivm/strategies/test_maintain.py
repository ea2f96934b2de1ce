"""Plans of maintenance: what is recomputed, what is joined, what is refused, and that the results are right."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Projection,
    SemiJoin,
    UnionAll,
    WindowColumns,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import find_unique_keys
from arctic_runtime.ivm.rules.runtime_filters import FilterSources
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState
from arctic_runtime.ivm.strategies.maintain import AFFECTED, AffectedKeys, Deltas, Facts, Maintenance, plan_maintenance
from arctic_runtime.model.names import TableName
from tests.unit.ivm import duck
from tests.unit.ivm.trees import (
    HEAP,
    ONE,
    SEEDS,
    SOURCES,
    TWO,
    Bag,
    Case,
    Source,
    cases,
    condition,
    given,
    netted,
    picked,
    types,
)

Names = tuple[str, ...]
Changed = frozenset[TableName]

L, R, H = ONE.scan("l"), TWO.scan("r"), HEAP.scan("h")
ON_KEY = condition("`l.a` = `r.id` and `l.b` = `r.a`")
ON_PART = condition("`l.a` = `r.id`")
NO_EQUALITY = condition("`l.a` < `r.b`")
COUNT = (("n", condition("count(*)")),)
COUNTED = Aggregate(H, (), COUNT)
LESS = condition("`l.a` < `n`")
COUNTED_BY_A = Aggregate(L, ("l.a",), (("rows", condition("count(*)")),))
LESS_ROWS = condition("`rows` < `n`")
ONE_ROW = Filter(ONE.scan("o"), condition("`o.id` = 1"))
FULL = Join("full", H, R, condition("`h.a` = `r.id`"))
ALL_FILTER_SOURCES = {source.name: frozenset(other.name for other in SOURCES) for source in SOURCES}
RANK = (("rank", condition("row_number() over (partition by `l.a` order by `l.id`)")),)


def of(*changed: Source) -> Changed:
    return frozenset(source.name for source in changed)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


def maintained(case: Case, key: tuple[str, ...], plan: Maintenance) -> Bag:
    """The result after a plan is carried out on the old one."""
    if isinstance(plan, Deltas):
        after = case.old.copy()
        after.update(netted(case.rows(plan.changes)))
        return after
    assert isinstance(plan, AffectedKeys)
    affected = case.rows(plan.affected)
    given(case.con, AFFECTED, key, affected)
    kept = {row: copies for row, copies in case.old.items() if not picked([row], case.tree, key) <= set(affected)}
    return case.rows(plan.new) + type(case.old)(kept)


@pytest.mark.parametrize("filter_sources", [{}, ALL_FILTER_SOURCES], ids=["", "with runtime filters"])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_old_result_becomes_the_new_one(
    con: duckdb.DuckDBPyConnection, seed: int, linear: bool, filter_sources: FilterSources
) -> None:
    for case in cases(con, seed, linear):
        key = case.random.choice([*map(tuple, find_unique_keys(case.tree)), case.names()])
        try:
            plan = plan_maintenance(
                case.tree, key, case.changed, Facts(types=types(case.tree), filter_sources=filter_sources)
            )
        except NotMaintained as refused:
            assert refused.reason in ("NOTHING_NEW", "EVERYTHING_AFFECTED", "ONE_ROW")  # noqa: PT017
            assert (refused.reason == "NOTHING_NEW") == (not case.changed)  # noqa: PT017
        else:
            assert +maintained(case, key, plan) == case.new, (key, case.tree)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_affected_key_is_named_once(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    for case in cases(con, seed):
        key = case.names()
        try:
            plan = plan_maintenance(case.tree, key, case.changed)
        except NotMaintained:
            continue
        if isinstance(plan, AffectedKeys):
            assert list_columns(plan.affected) == key
            assert set(case.rows(plan.affected).values()) <= {1}
            assert list_columns(plan.new) == list_columns(case.tree)


DELTAS = {
    "source": (L, ("l.id",), of(ONE)),
    "filter": (Filter(L, condition("`l.a` > 0")), ("l.id",), of(ONE)),
    "project": (Projection(L, (("k", build_column("l.id")), ("twice", condition("`l.a` * 2")))), ("k",), of(ONE)),
    "left join to a key": (Join("left", L, R, ON_KEY), ("l.id",), of(ONE, TWO)),
    "inner join": (Join("inner", L, R, ON_PART), ("l.id", "r.id", "r.a"), of(TWO)),
    "key by an equality": (Join("inner", L, R, condition("`l.id` = `r.id`")), ("l.id", "r.a"), of(TWO)),
    "anti join": (SemiJoin("anti", L, H, condition("`l.a` = `h.a`")), ("l.id",), of(HEAP)),
    "unchanged groups": (
        Join("left", L, Aggregate(H, ("h.a",), COUNT), condition("`l.a` = `h.a`")),
        ("l.id",),
        of(ONE),
    ),
    "an unchanged single row": (Join("left", L, Aggregate(H, (), COUNT), None), ("l.id",), of(ONE)),
    "a single row that all are joined to": (Join("inner", R, ONE_ROW, None), ("r.id", "r.a"), of(TWO)),
    "a single row found by an equality": (
        Join("inner", R, ONE_ROW, condition("`r.b` = `o.a`")),
        ("r.id", "r.a"),
        of(ONE),
    ),
    "a single row that all are compared to": (SemiJoin("semi", L, COUNTED, LESS), ("l.id",), of(ONE, HEAP)),
    "unchanged groups compared to a single row": (
        SemiJoin("semi", COUNTED_BY_A, COUNTED, LESS_ROWS),
        ("l.a",),
        of(HEAP),
    ),
    "an unequal join to what is unchanged": (Join("left", L, R, NO_EQUALITY), ("l.id", "r.id", "r.a"), of(ONE)),
}


@pytest.mark.parametrize(("tree", "key", "changed"), DELTAS.values(), ids=DELTAS)
def test_joins_of_changed_rows_are_deltas_where_the_key_is_proven(tree: Node, key: Names, changed: Changed) -> None:
    assert isinstance(plan_maintenance(tree, key, changed), Deltas)


UNITS = {
    "no key": (H, ("h.a",), of(HEAP)),
    "several partners": (Join("left", L, R, ON_PART), ("l.id",), of(TWO)),
    "full join": (Join("full", L, R, ON_KEY), ("l.id", "r.id", "r.a"), of(ONE)),
    "partners in a full join": (SemiJoin("anti", L, FULL, condition("`l.a` = `h.a`")), ("l.id",), of(HEAP)),
    "groups": (Aggregate(L, ("l.a",), COUNT), ("l.a",), of(ONE)),
    "windows": (WindowColumns(L, ("l.a",), RANK), ("l.id",), of(ONE)),
    "distinct": (Distinct(L), ("l.id",), of(ONE)),
    "union": (UnionAll((L,), ("x", "y", "z")), ("x",), of(ONE)),
    "explode": (Explode(L, condition("explode(array(`l.a`))"), ("e",), False), ("l.id",), of(ONE)),
    "groups compared to a single row": (SemiJoin("semi", COUNTED_BY_A, COUNTED, LESS_ROWS), ("l.a",), of(ONE, HEAP)),
    "unchanged groups that may differ in their last digits": (
        Join("left", L, Aggregate(H, ("h.a",), (("f", condition("sum(`h.b`)")),)), condition("`l.a` = `h.a`")),
        ("l.id",),
        of(ONE),
    ),
    "changed groups": (Join("left", L, Aggregate(H, ("h.a",), COUNT), condition("`l.a` = `h.a`")), ("l.id",), of(HEAP)),
}


@pytest.mark.parametrize(("tree", "key", "changed"), UNITS.values(), ids=UNITS)
def test_all_else_is_computed_again_by_units(tree: Node, key: Names, changed: Changed) -> None:
    assert isinstance(plan_maintenance(tree, key, changed), AffectedKeys)


REFUSED = {
    "one row": ("ONE_ROW", L, (), of(ONE)),
    "nothing changed": ("NOTHING_NEW", L, ("l.id",), of(TWO)),
    "unequal left join": ("EVERYTHING_AFFECTED", Join("left", L, R, NO_EQUALITY), ("l.id",), of(TWO)),
    "unequal full join": ("EVERYTHING_AFFECTED", Join("full", L, R, NO_EQUALITY), ("l.id",), of(ONE)),
    "unequal semi join": ("EVERYTHING_AFFECTED", SemiJoin("semi", L, R, NO_EQUALITY), ("l.id",), of(TWO)),
    "anti join to anything": ("EVERYTHING_AFFECTED", SemiJoin("anti", L, R, None), ("l.id",), of(TWO)),
    "one partition": ("EVERYTHING_AFFECTED", WindowColumns(L, (), RANK), ("l.id",), of(ONE)),
    "one group": ("EVERYTHING_AFFECTED", Join("inner", L, Aggregate(H, (), COUNT), None), ("l.id",), of(HEAP)),
    "a single row that may differ for no reason": (
        "EVERYTHING_AFFECTED",
        SemiJoin("anti", L, Aggregate(H, (), (("n", condition("first(`h.a`)")),)), LESS),
        ("l.id",),
        of(HEAP),
    ),
    "unchanged groups that may differ for no reason": (
        "NOT_REPEATABLE",
        Join("left", L, Aggregate(H, ("h.a",), (("f", condition("first(`h.b`)")),)), condition("`l.a` = `h.a`")),
        ("l.id",),
        of(ONE),
    ),
    "one row joined to all": ("EVERYTHING_AFFECTED", Join("inner", L, ONE_ROW, None), ("l.id",), of(ONE)),
}


@pytest.mark.parametrize(("reason", "tree", "key", "changed"), REFUSED.values(), ids=REFUSED)
def test_a_change_of_everything_is_refused_by_name(reason: str, tree: Node, key: Names, changed: Changed) -> None:
    with pytest.raises(NotMaintained) as refused:
        plan_maintenance(tree, key, changed)
    assert refused.value.reason == reason


@pytest.mark.parametrize("few_rows", [False, True])
def test_one_row_of_counts_is_followed_where_rows_are_few(few_rows: bool) -> None:
    if few_rows:
        assert isinstance(plan_maintenance(Aggregate(H, (), COUNT), (), of(HEAP), Facts(few_rows=True)), AggregateState)
    else:
        with pytest.raises(NotMaintained, match="single row"):
            plan_maintenance(Aggregate(H, (), COUNT), (), of(HEAP), Facts(few_rows=False))


def test_a_list_of_tables_is_joined_by_the_conditions_that_follow() -> None:
    tree = Filter(Join("inner", L, R, None), condition("`l.a` = `r.id` and `l.b` = `r.a` and `r.b` > 0"))
    plan = plan_maintenance(tree, ("l.id",), of(TWO))
    assert isinstance(plan, Deltas)
    assert [node.on for node in _joins(plan.changes)] == [ON_KEY]


def test_units_read_no_more_of_the_grouped_side_than_the_affected_groups() -> None:
    groups = Aggregate(H, ("h.a",), COUNT)
    plan = plan_maintenance(Join("left", L, groups, condition("`l.id` = `h.a`")), ("l.id",), of(HEAP))
    assert isinstance(plan, AffectedKeys)
    assert {(scan.source, scan.image) for scan in list_scans(plan.affected)} == {(HEAP.name, "delta")}
    assert _bare_scans(plan.new) == []


def test_a_key_merged_by_a_full_join_restricts_both_sides() -> None:
    merged = (("k", condition("coalesce(`l.id`, `r.id`)")), ("r.b", build_column("r.b")))
    tree = Projection(Join("full", L, R, condition("`l.id` = `r.id`")), merged)
    plan = plan_maintenance(tree, ("k",), of(TWO))
    assert isinstance(plan, AffectedKeys)
    assert {(scan.source, scan.image) for scan in list_scans(plan.affected)} == {(TWO.name, "delta")}
    assert _bare_scans(plan.new) == []


def _joins(node: Node) -> list[Join]:
    return [part for part in walk_tree(node) if isinstance(part, Join)]


def _bare_scans(node: Node) -> list[Node]:
    """Sources that are read without a restriction."""
    restricted = [part.left for part in walk_tree(node) if isinstance(part, SemiJoin)]
    return [scan for scan in list_scans(node) if scan not in restricted]
