"""Changes that no partner has are left out where a filtered source that is worth reading tells so."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    SpoolScan,
    UnionAll,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.rules.apply import derive_delta, derive_touched
from arctic_runtime.ivm.rules.runtime_filters import (
    FilterSources,
    RuntimeFilter,
    add_runtime_filters,
    find_runtime_filter,
)
from arctic_runtime.ivm.rules.terms import require_term
from arctic_runtime.ivm.strategies.maintain import with_spools
from tests.unit.ivm.trees import HEAP, ONE, TWO, condition

L, R, H = ONE.scan("l"), TWO.scan("r"), HEAP.scan("h")
SOME = Filter(R, condition("`r.b` = 1"))
TO_SOME = condition("`l.a` = `r.id`")
FILTER_SOURCES: FilterSources = {ONE.name: frozenset({TWO.name}), HEAP.name: frozenset({TWO.name})}
GROUPS = Aggregate(H, ("h.a",), (("n", condition("count(*)")),))
BY_GROUP = condition("`l.a` = `h.a`")
MIDDLE = Join("inner", HEAP.scan("m"), SOME, condition("`m.b` = `r.id`"))


def reads(tree: Node) -> list[str]:
    return sorted(f"{scan.source.name} {scan.image}" for scan in list_scans(tree))


@pytest.mark.parametrize(
    ("other", "on", "column"),
    [
        (SOME, "`l.a` = `r.id`", "r.id"),
        (MIDDLE, "`l.a` = `r.id`", "r.id"),
        (MIDDLE, "`l.a` = `m.b`", "r.id"),
        (SemiJoin("semi", HEAP.scan("m"), SOME, condition("`m.b` = `r.id`")), "`l.a` = `m.b`", "r.id"),
        (Join("left", SOME, HEAP.scan("m"), condition("`m.b` = `r.id`")), "`l.a` = `r.id`", "r.id"),
        (SemiJoin("anti", SOME, HEAP.scan("m"), condition("`m.b` = `r.id`")), "`l.a` = `r.id`", "r.id"),
        (Aggregate(SOME, ("r.id",), ()), "`l.a` = `r.id`", "r.id"),
        (Distinct(Projection(SOME, (("k", condition("`r.a`")),))), "`l.b` > 0 and `l.a` <=> `k`", "r.a"),
    ],
)
def test_a_filtered_source_with_all_values_of_the_other_side_is_a_runtime_filter(
    other: Node, on: str, column: str
) -> None:
    assert find_runtime_filter(L, other, condition(on), FILTER_SOURCES) == RuntimeFilter(
        "l.a", SOME, column, "<=>" in on
    )
    assert find_runtime_filter(L, other, condition(on), {}) is None
    assert find_runtime_filter(L, other, condition(on), {ONE.name: frozenset({ONE.name})}) is None


@pytest.mark.parametrize(
    ("other", "on"),
    [
        (R, "`l.a` = `r.id`"),
        (SOME, "`l.a` > `r.id`"),
        (Join("left", HEAP.scan("m"), SOME, condition("`m.b` = `r.id`")), "`l.a` = `r.id`"),
        (Join("left", HEAP.scan("m"), SOME, condition("`m.b` = `r.id`")), "`l.a` = `m.b`"),
        (SemiJoin("anti", HEAP.scan("m"), SOME, condition("`m.b` = `r.id`")), "`l.a` = `m.b`"),
        (Join("full", SOME, HEAP.scan("m"), condition("`m.b` = `r.id`")), "`l.a` = `r.id`"),
        (Join("inner", HEAP.scan("m"), SOME, condition("coalesce(`m.b`) = `r.id`")), "`l.a` = `m.b`"),
        (Aggregate(SOME, ("r.id",), (("n", condition("count(*)")),)), "`l.a` = `n`"),
        (Projection(SOME, (("k", condition("`r.id` + 1")),)), "`l.a` = `k`"),
    ],
)
def test_a_side_that_may_lack_values_of_the_other_is_no_runtime_filter(other: Node, on: str) -> None:
    assert find_runtime_filter(L, other, condition(on), FILTER_SOURCES) is None


@pytest.mark.parametrize("tree", [Join("inner", L, SOME, TO_SOME), SemiJoin("semi", L, SOME, TO_SOME)])
def test_changes_are_left_out_that_have_no_partner(tree: Node) -> None:
    changed = frozenset({ONE.name})
    assert reads(require_term(derive_touched(tree, ("l.id",), changed))) == ["one delta"]
    assert reads(require_term(derive_touched(tree, ("l.id",), changed, FILTER_SOURCES))) == ["one delta", "two new"]


def test_a_changed_runtime_filter_also_keeps_partners_of_its_old_rows() -> None:
    changed = frozenset({ONE.name, TWO.name})
    term = require_term(derive_touched(Join("inner", L, SOME, TO_SOME), ("l.a",), changed, FILTER_SOURCES))
    assert reads(term) == ["one delta", "two delta", "two either"]


@pytest.mark.parametrize("tree", [Join("left", L, SOME, TO_SOME), SemiJoin("anti", L, SOME, TO_SOME)])
def test_rows_that_are_there_without_a_partner_are_not_left_out(tree: Node) -> None:
    assert reads(require_term(derive_touched(tree, ("l.id",), frozenset({ONE.name}), FILTER_SOURCES))) == ["one delta"]


def test_groups_read_only_rows_that_pass_the_runtime_filter() -> None:
    tree = Join("left", Join("inner", L, SOME, TO_SOME), GROUPS, BY_GROUP)
    filtered = add_runtime_filters(tree, FILTER_SOURCES)
    assert isinstance(filtered, Join)
    groups = filtered.right
    assert isinstance(groups, Aggregate)
    assert [_without_names(part) for part in walk_tree(groups)] == [
        "Aggregate",
        "SemiJoin",
        "h",
        "Projection",
        "Filter",
        "r",
    ]
    assert filtered.left == tree.left
    assert add_runtime_filters(tree, {}) == tree


def test_a_side_whose_rows_are_all_there_is_not_reduced() -> None:
    tree = Join("left", GROUPS, SOME, condition("`h.a` = `r.id`"))
    assert add_runtime_filters(tree, FILTER_SOURCES) == tree
    assert add_runtime_filters(Join("inner", L, SOME, TO_SOME), FILTER_SOURCES) == Join("inner", L, SOME, TO_SOME)


def test_a_runtime_filter_of_several_terms_becomes_one_spool() -> None:
    groups = Aggregate(SemiJoin("semi", L, SOME, TO_SOME), ("l.a",), (("n", condition("count(*)")),))
    plan = require_term(derive_delta(groups, frozenset({ONE.name}), FILTER_SOURCES))
    times = reads(plan).count("one delta")
    assert times > 1
    spool, spools = with_spools(plan)
    assert [reads(one.rows) for one in spools] == [["one delta", "two new"]]
    assert [node.name for node in walk_tree(spool) if isinstance(node, SpoolScan)] == [spools[0].name] * times
    assert "one delta" not in reads(spool)


def test_a_filter_that_is_read_once_or_reads_more_than_changes_is_no_spool() -> None:
    once = require_term(
        derive_touched(Join("inner", L, SOME, TO_SOME), ("l.id",), frozenset({ONE.name}), FILTER_SOURCES)
    )
    assert with_spools(once) == (once, ())
    left = Join("inner", HEAP.scan("m"), L, condition("`m.b` = `l.b`"))
    by_rows = require_term(
        derive_touched(Join("inner", left, SOME, TO_SOME), ("m.a", "l.a"), frozenset({ONE.name}), FILTER_SOURCES)
    )
    assert "heap new" in reads(by_rows)
    twice = UnionAll((by_rows, by_rows), ("x", "y"))
    assert with_spools(twice) == (twice, ())


def _without_names(node: Node) -> str:
    return node.fields[0][0].split(".")[0] if isinstance(node, Scan) else type(node).__name__
