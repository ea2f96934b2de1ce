"""Which columns are proven to identify rows."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Projection,
    SemiJoin,
    SetOperation,
    UnionAll,
    WindowColumns,
)
from arctic_runtime.ivm.algebra.unique import find_unique_keys, is_unique
from tests.unit.ivm.trees import HEAP, ONE, TWO, condition

L, R, H, AGAIN = ONE.scan("l"), TWO.scan("r"), HEAP.scan("h"), ONE.scan("again")
COUNT = (("n", condition("count(*)")),)
GROUPS = Aggregate(H, ("h.a",), COUNT)
TO_KEY = condition("`l.a` = `r.id` and `l.b` = `r.a`")
TO_PART = condition("`l.a` = `r.id`")
RENAMED = Projection(L, (("k", build_column("l.id")), ("v", condition("`l.a` + 1"))))

PROVEN: dict[str, tuple[Node, str]] = {
    "a source's key": (L, "l.id"),
    "a key of two columns": (R, "r.id r.a"),
    "behind a filter": (Filter(L, condition("`l.a` = 1")), "l.id"),
    "under another name": (RENAMED, "k"),
    "in parentheses": (Projection(L, (("k", condition("(`l.id`)")),)), "k"),
    "under the name of an equal": (
        Projection(Join("inner", L, AGAIN, condition("`l.id` = `again.id`")), (("k", build_column("again.id")),)),
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
    "behind windows": (WindowColumns(L, ("l.a",), (("m", condition("max(`l.b`) over (partition by `l.a`)")),)), "l.id"),
    "all columns of distinct rows": (Distinct(H), "h.a h.b h.c"),
    "the left key of an intersection": (SetOperation("intersect", True, L, H, ("x", "y", "z")), "x"),
    "all columns of a difference": (SetOperation("except", False, H, L, ("x", "y", "z")), "x y z"),
    "no column of a single row": (Filter(L, condition("`l.id` = 1")), ""),
}

UNPROVEN: dict[str, tuple[Node, str]] = {
    "other columns": (L, "l.a l.b"),
    "a part of a key": (R, "r.id"),
    "a source without a key": (H, "h.a h.b h.c"),
    "what is computed of a key": (Projection(L, (("k", condition("`l.id` % 2")),)), "k"),
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
    assert find_unique_keys(Distinct(L)) == (frozenset({"l.id"}),)


def test_groups_by_a_part_of_a_key_are_not_known_by_the_key() -> None:
    assert find_unique_keys(Aggregate(R, ("r.id", "r.b"), COUNT)) == (frozenset({"r.id", "r.b"}),)
