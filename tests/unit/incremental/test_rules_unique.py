"""Which columns are proven to identify rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.plan.incremental.conditions import conjunction, conjuncts, constants, equalities, links
from arctic_runtime.plan.incremental.expressions import column
from arctic_runtime.plan.incremental.pushdown import pushed_down
from arctic_runtime.plan.incremental.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Project,
    SemiJoin,
    SetOperation,
    UnionAll,
    Window,
)
from arctic_runtime.plan.incremental.unique import is_unique, unique_keys
from tests.unit.incremental.trees import HEAP, ONE, TWO, condition

L, R, H, AGAIN = ONE.scan("l"), TWO.scan("r"), HEAP.scan("h"), ONE.scan("again")
COUNT = (("n", condition("count(*)")),)
GROUPS = Aggregate(H, ("h.a",), COUNT)
TO_KEY = condition("`l.a` = `r.id` and `l.b` = `r.a`")
TO_PART = condition("`l.a` = `r.id`")
RENAMED = Project(L, (("k", column("l.id")), ("v", condition("`l.a` + 1"))))

PROVEN: dict[str, tuple[Node, str]] = {
    "a source's key": (L, "l.id"),
    "a key of two columns": (R, "r.id r.a"),
    "behind a filter": (Filter(L, condition("`l.a` = 1")), "l.id"),
    "under another name": (RENAMED, "k"),
    "in parentheses": (Project(L, (("k", condition("(`l.id`)")),)), "k"),
    "under the name of an equal": (
        Project(Join("inner", L, AGAIN, condition("`l.id` = `again.id`")), (("k", column("again.id")),)),
        "k",
    ),
    "with partners by their whole key": (Join("left", L, R, TO_KEY), "l.id"),
    "with partners by a key part and a constant": (
        Join("left", L, R, condition("`l.a` = `r.id` and `r.a` = 1")),
        "l.id",
    ),
    "with partners behind a constant": (Join("left", L, Filter(R, condition("1 = `r.a`")), TO_PART), "l.id"),
    "with groups as partners": (Join("left", L, GROUPS, condition("`l.a` <=> `h.a`")), "l.id"),
    "with a single row": (Join("left", L, Aggregate(H, (), COUNT), None), "l.id"),
    "of the side with one partner": (Join("inner", R, L, condition("`r.b` = `l.id`")), "r.id r.a"),
    "by the other side's equal": (Join("inner", L, AGAIN, condition("`l.id` = `again.id`")), "again.id"),
    "of both sides": (Join("inner", L, R, TO_PART), "l.id r.id r.a"),
    "of both sides, an equal for one": (Join("inner", L, R, condition("`l.id` = `r.id`")), "l.id r.a"),
    "of rows with partners": (SemiJoin("anti", L, H, condition("`l.a` = `h.a`")), "l.id"),
    "groups": (GROUPS, "h.a"),
    "groups by more than a key": (Aggregate(L, ("l.id", "l.a"), COUNT), "l.id"),
    "behind windows": (Window(L, ("l.a",), (("m", condition("max(`l.b`) over (partition by `l.a`)")),)), "l.id"),
    "all columns of distinct rows": (Distinct(H), "h.a h.b h.c"),
    "the left key of an intersection": (SetOperation("intersect", True, L, H, ("x", "y", "z")), "x"),
    "all columns of a difference": (SetOperation("except", False, H, L, ("x", "y", "z")), "x y z"),
    "no column of a single row": (Filter(L, condition("`l.id` = 1")), ""),
}

UNPROVEN: dict[str, tuple[Node, str]] = {
    "other columns": (L, "l.a l.b"),
    "a part of a key": (R, "r.id"),
    "a source without a key": (H, "h.a h.b h.c"),
    "what is computed of a key": (Project(L, (("k", condition("`l.id` % 2")),)), "k"),
    "with partners by a part of their key": (Join("left", L, R, TO_PART), "l.id"),
    "with partners by more or less": (Join("left", L, R, condition("`l.a` <= `r.id` and `l.b` = `r.a`")), "l.id"),
    "partners that there are several of": (Join("left", R, L, condition("`r.b` = `l.id`")), "l.id"),
    "rows of a full join": (Join("full", L, R, TO_KEY), "l.id r.id r.a"),
    "exploded rows": (Explode(L, condition("explode(array(1, 1))"), ("e",), False), "l.id l.a l.b e"),
    "the same rows twice": (UnionAll((L, L), ("x", "y", "z")), "x y z"),
    "an equal of a left join": (Join("left", R, L, condition("`r.b` = `l.id`")), "l.id r.a"),
    "what rows without a partner have null": (Join("left", L, AGAIN, condition("`l.id` = `again.id`")), "again.id"),
    "all columns of what an intersection keeps": (SetOperation("intersect", True, H, L, ("x", "y", "z")), "x y z"),
}


@pytest.mark.parametrize(("tree", "names"), PROVEN.values(), ids=PROVEN)
def test_columns_that_identify_rows_are_proven(tree: Node, names: str) -> None:
    assert is_unique(tree, names.split())


@pytest.mark.parametrize(("tree", "names"), UNPROVEN.values(), ids=UNPROVEN)
def test_columns_that_rows_can_share_are_not(tree: Node, names: str) -> None:
    assert not is_unique(tree, names.split())


def test_a_key_that_contains_another_is_not_listed() -> None:
    assert unique_keys(Distinct(L)) == (frozenset({"l.id"}),)


def test_groups_by_a_part_of_a_key_are_not_known_by_the_key() -> None:
    assert unique_keys(Aggregate(R, ("r.id", "r.b"), COUNT)) == (frozenset({"r.id", "r.b"}),)


def test_equalities_are_found_either_way_round_and_under_parentheses() -> None:
    found = equalities(
        condition("(`r.id` = `l.a` and (`l.b`) <=> `r.b`) and `l.a` < `r.b`"), ("l.a", "l.b"), ("r.id", "r.b")
    )
    assert [(pair.left, pair.right, pair.null_safe) for pair in found] == [("l.a", "r.id", False), ("l.b", "r.b", True)]


def test_an_equality_of_unlike_columns_is_told_from_one_of_the_same_values() -> None:
    names = ("l.a", "l.b"), ("r.id", "r.a")
    found = equalities(condition("coalesce(`l.a`) = `r.id` and `l.b` <=> coalesce(`r.a`)"), *names)
    assert [(pair.left, pair.right, pair.same) for pair in found] == [("l.a", "r.id", False), ("l.b", "r.a", False)]
    assert equalities(condition("coalesce(`l.a`) = coalesce(`r.id`)"), *names) == ()
    assert equalities(condition("coalesce(`l.a`, `l.b`) = `r.id`"), *names) == ()


def test_a_link_is_an_equality_of_both_sides_and_of_nothing_else() -> None:
    asked = condition("`l.a` + 1 = `r.id` and `l.a` = 1 and `l.a` + `r.id` = `r.b` and `l.a` > `r.b`")
    assert links(asked, ("l.a",), ("r.id", "r.b")) == (condition("`l.a` + 1 = `r.id`"),)


def test_only_what_has_to_be_true_is_a_conjunct() -> None:
    either = condition("`l.a` = 1 or `l.b` = 2")
    assert conjuncts(either) == (either,)
    assert constants(either) == frozenset()
    assert conjunction(conjuncts(condition("true"))) is None


def test_conditions_of_a_join_go_where_they_keep_its_rows() -> None:
    on = condition("`l.a` = `r.id` and `l.b` = 1 and `r.b` = 2")
    left, right = (Filter(side, condition(text)) for side, text in ((L, "`l.b` = 1"), (R, "`r.b` = 2")))
    assert pushed_down(Join("inner", L, R, on)) == Join("inner", left, right, TO_PART)
    assert pushed_down(Join("left", L, R, on)) == Join("left", L, right, condition("`l.a` = `r.id` and `l.b` = 1"))
    assert pushed_down(Join("full", L, R, on)) == Join("full", L, R, on)
    assert pushed_down(SemiJoin("semi", L, R, on)) == SemiJoin("semi", left, right, TO_PART)
    assert pushed_down(SemiJoin("anti", L, R, on)).on == condition("`l.a` = `r.id` and `l.b` = 1")


def test_conditions_on_what_an_operator_computes_stay_above_it() -> None:
    top = Window(L, ("l.a",), (("m", condition("max(`l.b`) over (partition by `l.a`)")),))
    kept = pushed_down(Filter(top, condition("`l.b` = `m` and `l.b` > 0 and `l.a` > 0")))
    assert kept == Filter(replace(top, child=Filter(L, condition("`l.a` > 0"))), condition("`l.b` = `m` and `l.b` > 0"))
    tree = Filter(GROUPS, condition("`n` > 1 and `h.a` > 0"))
    assert pushed_down(tree) == Filter(
        Aggregate(Filter(H, condition("`h.a` > 0")), ("h.a",), COUNT), condition("`n` > 1")
    )


def test_a_condition_on_no_column_stays_where_it_is() -> None:
    single = Filter(Aggregate(H, (), COUNT), condition("1 = 2"))
    assert pushed_down(single) == single


def test_a_condition_goes_through_a_projection_as_what_it_is_computed_of() -> None:
    found = pushed_down(Filter(RENAMED, condition("`v` > 0 and `k` = 1")))
    assert found == Project(Filter(L, condition("(`l.a` + 1) > 0 and `l.id` = 1")), RENAMED.expressions)
