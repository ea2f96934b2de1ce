"""What conditions say of columns, and where they are moved to."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.conditions import (
    build_conjunction,
    derive_implied,
    factor_conjuncts,
    list_constant_columns,
    list_equalities,
    list_hash_links,
    split_conjuncts,
)
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import Aggregate, Filter, Join, Projection, SemiJoin, WindowColumns, list_columns
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from tests.unit.ivm.trees import HEAP, ONE, TWO, condition

L, R, H = ONE.scan("l"), TWO.scan("r"), HEAP.scan("h")
COUNT = (("n", condition("count(*)")),)
GROUPS = Aggregate(H, ("h.a",), COUNT)
TO_PART = condition("`l.a` = `r.id`")
RENAMED = Projection(L, (("k", build_column("l.id")), ("v", condition("`l.a` + 1"))))


def test_equalities_are_found_either_way_round_and_under_parentheses() -> None:
    equalities = list_equalities(
        condition("(`r.id` = `l.a` and (`l.b`) <=> `r.b`) and `l.a` < `r.b`"), ("l.a", "l.b"), ("r.id", "r.b")
    )
    assert [(pair.left, pair.right, pair.null_safe) for pair in equalities] == [
        ("l.a", "r.id", False),
        ("l.b", "r.b", True),
    ]


def test_an_equality_of_unlike_columns_is_distinguished_from_one_of_the_same_values() -> None:
    names = ("l.a", "l.b"), ("r.id", "r.a")
    equalities = list_equalities(condition("coalesce(`l.a`) = `r.id` and `l.b` <=> coalesce(`r.a`)"), *names)
    assert [(pair.left, pair.right, pair.same) for pair in equalities] == [
        ("l.a", "r.id", False),
        ("l.b", "r.a", False),
    ]
    assert list_equalities(condition("coalesce(`l.a`) = coalesce(`r.id`)"), *names) == ()
    assert list_equalities(condition("coalesce(`l.a`, `l.b`) = `r.id`"), *names) == ()


def test_a_link_is_an_equality_of_both_sides_and_of_nothing_else() -> None:
    asked = condition("`l.a` + 1 = `r.id` and `l.a` = 1 and `l.a` + `r.id` = `r.b` and `l.a` > `r.b`")
    assert list_hash_links(asked, ("l.a",), ("r.id", "r.b")) == (condition("`l.a` + 1 = `r.id`"),)


def test_only_what_has_to_be_true_is_a_conjunct() -> None:
    either = condition("`l.a` = 1 or `l.b` = 2")
    assert split_conjuncts(either) == (either,)
    assert list_constant_columns(either) == frozenset()
    assert build_conjunction(split_conjuncts(condition("true"))) is None


def test_conditions_of_a_join_go_where_they_keep_its_rows() -> None:
    on = condition("`l.a` = `r.id` and `l.b` = 1 and `r.b` = 2")
    left, right = (Filter(side, condition(text)) for side, text in ((L, "`l.b` = 1"), (R, "`r.b` = 2")))
    assert push_down_filters(Join("inner", L, R, on)) == Join("inner", left, right, TO_PART)
    assert push_down_filters(Join("left", L, R, on)) == Join(
        "left", L, right, condition("`l.a` = `r.id` and `l.b` = 1")
    )
    assert push_down_filters(Join("full", L, R, on)) == Join("full", L, R, on)
    assert push_down_filters(SemiJoin("semi", L, R, on)) == SemiJoin("semi", left, right, TO_PART)
    assert push_down_filters(SemiJoin("anti", L, R, on)).on == condition("`l.a` = `r.id` and `l.b` = 1")


def test_what_the_branches_of_an_or_have_in_common_is_a_condition_of_its_own() -> None:
    on = condition("(`l.a` = `r.id` and `l.b` < `r.b`) or (`l.b` > `r.b` and (`l.a` = `r.id`))")
    filters = push_down_filters(Filter(Join("inner", L, R, None), on))
    assert filters == Join("inner", L, R, condition("`l.a` = `r.id` and (`l.b` < `r.b` or `l.b` > `r.b`)"))
    assert factor_conjuncts(condition("`l.a` = 1 and `l.b` = 2 or `l.a` = 1")) == (condition("`l.a` = 1"),)
    apart = condition("`l.a` = 1 or `l.b` = 2")
    assert factor_conjuncts(apart) == (apart,)


def test_conditions_of_an_or_on_one_side_alone_are_pushed_to_it() -> None:
    on = condition("`l.a` = `r.id` and (`l.b` = 1 and `r.b` = 2 and `l.id` < `r.a` or `r.b` = 1 and `l.b` = 2)")
    left, right = Filter(L, condition("`l.b` = 1 or `l.b` = 2")), Filter(R, condition("`r.b` = 2 or `r.b` = 1"))
    assert push_down_filters(Join("inner", L, R, on)) == Join("inner", left, right, on)
    assert push_down_filters(Join("left", L, R, on)) == Join("left", L, right, on)
    assert derive_implied(condition("`l.b` = 1 and `r.b` = 2 or `l.id` < `r.a`"), list_columns(L)) is None


def test_conditions_on_what_an_operator_computes_stay_above_it() -> None:
    top = WindowColumns(L, ("l.a",), (("m", condition("max(`l.b`) over (partition by `l.a`)")),))
    kept = push_down_filters(Filter(top, condition("`l.b` = `m` and `l.b` > 0 and `l.a` > 0")))
    assert kept == Filter(replace(top, child=Filter(L, condition("`l.a` > 0"))), condition("`l.b` = `m` and `l.b` > 0"))
    tree = Filter(GROUPS, condition("`n` > 1 and `h.a` > 0"))
    assert push_down_filters(tree) == Filter(
        Aggregate(Filter(H, condition("`h.a` > 0")), ("h.a",), COUNT), condition("`n` > 1")
    )


def test_a_condition_on_no_column_stays_where_it_is() -> None:
    single = Filter(Aggregate(H, (), COUNT), condition("1 = 2"))
    assert push_down_filters(single) == single


def test_a_condition_is_pushed_through_a_projection_as_its_expression() -> None:
    filters = push_down_filters(Filter(RENAMED, condition("`v` > 0 and `k` = 1")))
    assert filters == Projection(Filter(L, condition("(`l.a` + 1) > 0 and `l.id` = 1")), RENAMED.expressions)
