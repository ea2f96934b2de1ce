"""Changed rows followed together with what they were: exact wherever that is planned, and planned only where it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import duckdb
import pytest

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import (
    HAS_AFTER,
    HAS_BEFORE,
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    UnionAll,
    WindowColumns,
    list_columns,
    map_children,
    name_before,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import find_unique_keys
from arctic_runtime.ivm.rules.terms import read_image
from arctic_runtime.ivm.strategies.maintain import Facts, plan_maintenance
from arctic_runtime.ivm.strategies.pairs import Pairs, plan_pairs
from arctic_runtime.model.names import TableName
from tests.unit.ivm import duck
from tests.unit.ivm.trees import (
    FEW,
    HEAP,
    ONE,
    SEEDS,
    SOURCES,
    TWO,
    Bag,
    Batch,
    Rows,
    Source,
    Trees,
    condition,
    load,
    random_batch,
    rows,
)

Names = tuple[str, ...]
Row = tuple[Any, ...]

ALL = frozenset(source.name for source in SOURCES)
NONE: frozenset[TableName] = frozenset()
L, R, H, AGAIN = ONE.scan("l"), TWO.scan("r"), HEAP.scan("h"), ONE.scan("again")
PARTNERS = condition("`l.a` = `r.id` and `l.b` = `r.a`")
BY_KEY = condition("`l.id` = `h.a`")
BY_VALUE = condition("`l.a` = `h.a`")
COUNT = (("n", condition("count(*)")),)
GROUPS = Aggregate(H, ("h.a",), COUNT)
RANK = (("rank", condition("row_number() over (partition by `l.a` order by `l.id`)")),)


def slowly(*values: Any) -> list[Any]:
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


MOST_SEEDS = [0, *slowly(*range(1, FEW)), *SEEDS[FEW:]]
"""One that every run tries."""


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


def of(*changed: Source) -> frozenset[TableName]:
    return frozenset(source.name for source in changed)


def planned(tree: Node, key: Names, changed: frozenset[TableName]) -> Pairs | None:
    return plan_pairs(tree, key, changed, ALL, ALL)


def load_changed(con: duckdb.DuckDBPyConnection, random: Random) -> Source:
    """The images of a batch in which one source alone has changed, which is returned."""
    batch = random_batch(random)
    source = random.choice((ONE, TWO))
    load(con, replace(batch, new={**batch.old, source: batch.new[source]}))
    return source


def by_key(bag: Bag, tree: Node, key: Names) -> dict[Row, Row]:
    places = [list_columns(tree).index(name) for name in key]
    assert set(bag.values()) <= {1}
    keyed = {tuple(row[place] for place in places): row for row in bag}
    assert len(keyed) == len(bag)
    return keyed


def check(con: duckdb.DuckDBPyConnection, tree: Node, key: Names, plan: Pairs, changed: frozenset[TableName]) -> None:
    """Old rows are told as they were, and with the new ones in their place they are the new result."""
    width = len(list_columns(tree))
    assert list_columns(plan.rows) == (
        *list_columns(tree),
        *map(name_before, list_columns(tree)),
        HAS_AFTER,
        HAS_BEFORE,
    )
    old, new = (by_key(rows(con, image), tree, key) for image in (read_image(tree, "old", changed), tree))
    after, was = {}, {}
    for (*values, has_after, has_before), copies in rows(con, plan.rows).items():
        (one, now), (other, then) = (
            next(iter(by_key(Bag([tuple(row)]), tree, key).items())) for row in (values[:width], values[width:])
        )
        assert one == other
        assert copies == 1
        assert one not in after
        after[one] = now if has_after else None
        was[one] = then if has_before else None
    assert was == {key: old.get(key) for key in was}, tree
    assert {name: row for name, row in {**old, **after}.items() if row is not None} == new, tree


@pytest.mark.parametrize("seed", MOST_SEEDS)
def test_pairs_turn_the_old_result_into_the_new_one(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    random = Random(seed)
    trees = Trees(random)
    for depth in (1, 2, 3, 4):
        source = load_changed(con, random)
        for _ in range(6):
            tree, key = trees.path(source, depth)
            plan = planned(tree, key, of(source))
            assert plan is not None, tree
            check(con, tree, key, plan, of(source))


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("seed", MOST_SEEDS)
def test_pairs_of_any_supported_tree_are_correct(con: duckdb.DuckDBPyConnection, seed: int, linear: bool) -> None:
    random = Random(seed)
    trees = Trees(random, linear)
    source = load_changed(con, random)
    for depth in (1, 2, 2, 2, 3, 3):
        tree = trees.tree(depth)
        for key in map(tuple, find_unique_keys(tree)):
            plan = planned(tree, key, of(source))
            if plan is not None:
                check(con, tree, key, plan, of(source))


FOLLOWED: dict[str, tuple[Node, Names, Source]] = {
    "source": (L, ("l.id",), ONE),
    "a key of two columns": (R, ("r.a", "r.id"), TWO),
    "a key told twice": (
        Projection(L, (("k", build_column("l.id")), ("again", build_column("l.id")))),
        ("again", "k"),
        ONE,
    ),
    "filter": (Filter(L, condition("`l.a` > 0")), ("l.id",), ONE),
    "left join to a key": (Join("left", L, R, PARTNERS), ("l.id",), ONE),
    "inner join to a key": (Join("inner", L, R, PARTNERS), ("l.id",), ONE),
    "from the other side": (Join("inner", R, L, PARTNERS), ("l.id",), ONE),
    "groups": (Join("left", L, GROUPS, BY_VALUE), ("l.id",), ONE),
    "a single row for all": (Join("inner", L, Aggregate(H, (), COUNT), None), ("l.id",), ONE),
    "semi join": (SemiJoin("semi", L, H, BY_VALUE), ("l.id",), ONE),
    "anti join": (SemiJoin("anti", L, H, BY_VALUE), ("l.id",), ONE),
    "anti join by the key and more": (
        SemiJoin("anti", L, H, condition("`l.id` = `h.a` and `h.b` > `h.c`")),
        ("l.id",),
        ONE,
    ),
    "semi join to one partner at most": (
        SemiJoin("semi", L, R, condition("`l.a` = `r.id` and `l.b` = `r.a` and `l.b` < `r.b`")),
        ("l.id",),
        ONE,
    ),
}


@pytest.mark.parametrize(("tree", "key", "source"), FOLLOWED.values(), ids=FOLLOWED)
def test_rows_that_give_one_row_under_their_key_are_followed(tree: Node, key: Names, source: Source) -> None:
    assert isinstance(plan_maintenance(tree, key, of(source), Facts(paired=ALL, small=ALL)), Pairs)
    assert not isinstance(plan_maintenance(tree, key, of(source), Facts(small=ALL)), Pairs)
    assert not isinstance(plan_maintenance(tree, key, of(source)), Pairs)


REFUSED: dict[str, tuple[Node, Names, frozenset[TableName]]] = {
    "two sources changed": (Join("left", L, R, PARTNERS), ("l.id",), of(ONE, TWO)),
    "a source that stands twice": (Join("left", L, AGAIN, condition("`l.a` = `again.id`")), ("l.id",), of(ONE)),
    "a source without a key": (H, ("h.a", "h.b", "h.c"), of(HEAP)),
    "nothing changed": (L, ("l.id",), of(TWO)),
    "a source of one row": (replace(L, key=()), (), of(ONE)),
    "a part of the key": (R, ("r.id",), of(TWO)),
    "a key that is computed": (Projection(L, (("k", condition("`l.id` + 1")),)), ("k",), of(ONE)),
    "a key that is another column": (L, ("l.a",), of(ONE)),
    "more than the key": (L, ("l.id", "l.a"), of(ONE)),
    "a partner's key": (Join("inner", L, R, PARTNERS), ("l.id", "r.id"), of(ONE)),
    "a partner's equal of the key": (Join("left", R, L, condition("`r.b` = `l.id`")), ("r.id", "l.id"), of(TWO)),
    "several partners": (Join("left", L, R, condition("`l.a` = `r.id`")), ("l.id",), of(ONE)),
    "several partners by an inequality": (Join("inner", L, R, condition("`l.a` < `r.id`")), ("l.id",), of(ONE)),
    "all pairs": (Join("inner", L, R, None), ("l.id",), of(ONE)),
    "a changed partner": (Join("left", L, R, PARTNERS), ("l.id",), of(TWO)),
    "a partner of rows that stay": (Join("left", GROUPS, L, BY_VALUE), ("l.id",), of(ONE)),
    "full join": (Join("full", L, R, PARTNERS), ("l.id",), of(ONE)),
    "semi join to what changed": (SemiJoin("semi", H, L, condition("`h.a` = `l.id`")), ("h.a",), of(ONE)),
    "semi join to several": (
        SemiJoin("semi", L, H, condition("`l.a` = `h.a` and `l.b` < `h.b`")),
        ("l.id",),
        of(ONE),
    ),
    "groups": (Aggregate(L, ("l.id",), COUNT), ("l.id",), of(ONE)),
    "window": (WindowColumns(L, ("l.a",), RANK), ("l.id",), of(ONE)),
    "distinct": (Distinct(L), ("l.id",), of(ONE)),
    "union": (UnionAll((L,), ("x", "y", "z")), ("x",), of(ONE)),
    "set operation": (SetOperation("except", False, L, H, ("x", "y", "z")), ("x",), of(ONE)),
    "explode": (Explode(L, condition("explode(array(`l.a`))"), ("e",), False), ("l.id",), of(ONE)),
}


@pytest.mark.parametrize(("tree", "key", "changed"), REFUSED.values(), ids=REFUSED)
def test_rows_that_may_give_others_or_meet_others_are_not(
    tree: Node, key: Names, changed: frozenset[TableName]
) -> None:
    assert planned(tree, key, changed) is None


def test_a_source_whose_log_does_not_tell_old_rows_is_not_followed() -> None:
    assert plan_pairs(L, ("l.id",), of(ONE), of(TWO, HEAP), ALL) is None


@pytest.mark.parametrize(
    ("tree", "reads"),
    [
        (Join("left", L, R, PARTNERS), 2),
        (Join("inner", L, R, PARTNERS), 2),
        (Join("left", L, R, condition("`l.id` = `r.id` and `r.a` = `l.id`")), 1),
        (Join("left", L, R, condition("`l.id` = `r.id` and `r.a` = 1")), 1),
        (SemiJoin("anti", L, H, BY_VALUE), 2),
        (SemiJoin("anti", L, H, BY_KEY), 1),
        (Join("left", Join("left", L, R, condition("`l.id` = `r.id` and `r.a` = 1")), GROUPS, BY_VALUE), 3),
        (Join("left", Join("left", L, R, condition("`l.id` = `r.id` and `r.a` = 1")), GROUPS, BY_KEY), 2),
        (
            Join("left", Join("left", L, R, condition("`l.id` = `r.id` and `r.a` = 1")), GROUPS,
                 condition("`r.b` = `h.a`")),
            2,
        ),
    ],
)  # fmt: skip
def test_only_partners_that_can_change_are_read_twice(tree: Node, reads: int) -> None:
    plan = planned(tree, ("l.id",), of(ONE))
    assert plan is not None
    scans = [scan for scan in walk_tree(plan.rows) if isinstance(scan, Scan)]
    assert [scan.image for scan in scans if scan.source == ONE.name] == ["pair"]
    assert len(scans) - 1 == reads


@pytest.mark.parametrize(
    ("tree", "is_followed"),
    [
        (Join("left", L, R, PARTNERS), False),
        (SemiJoin("semi", L, R, PARTNERS), False),
        (Join("left", L, R, condition("`l.id` = `r.id` and `r.a` = 1")), True),
        (SemiJoin("semi", L, H, BY_KEY), True),
        (Join("left", L, GROUPS, BY_KEY), False),
        (SemiJoin("semi", L, GROUPS, BY_KEY), False),
    ],
)
def test_what_is_large_is_neither_read_twice_nor_grouped_in_full(tree: Node, is_followed: bool) -> None:
    assert planned(tree, ("l.id",), of(ONE)) is not None
    assert (plan_pairs(tree, ("l.id",), of(ONE), ALL, of(ONE)) is not None) == is_followed


# What becomes of a row of ONE; TWO has a partner for (1, 1) and (2, 2), HEAP has two for 1.

PARTNER_ROWS: Rows = [(1, 1, 10), (2, 2, None)]
HEAP_ROWS: Rows = [(1, 1, 1), (1, 1, 2), (2, None, 1), (None, 1, 1)]


def followed(con: duckdb.DuckDBPyConnection, tree: Node, was: Row | None, now: Row | None) -> tuple[Any, Any] | None:
    """A row of the result before and after, None for no row; None where there is no pair at all."""
    old, new = ([row] if row else [] for row in (was, now))
    rest = {TWO: PARTNER_ROWS, HEAP: HEAP_ROWS}
    load(con, Batch({ONE: old, **rest}, {ONE: new, **rest}))
    plan = planned(tree, ("l.id",), of(ONE))
    assert plan is not None
    check(con, tree, ("l.id",), plan, of(ONE))
    rows_now = list(rows(con, plan.rows))
    assert len(rows_now) <= 1
    width = len(list_columns(tree))
    ends = [(row[width : 2 * width] if row[-1] else None, row[:width] if row[-2] else None) for row in rows_now]
    return ends[0] if ends else None


POSITIVE = Filter(L, condition("`l.a` > 0"))


@pytest.mark.parametrize(
    ("was", "now", "ends"),
    [
        ((1, 1, 1), (1, 2, 1), ((1, 1, 1), (1, 2, 1))),
        ((1, 1, 1), (1, 0, 1), ((1, 1, 1), None)),
        ((1, 1, 1), (1, None, 1), ((1, 1, 1), None)),
        ((1, 0, 1), (1, 1, 1), (None, (1, 1, 1))),
        ((1, None, 1), (1, 1, 1), (None, (1, 1, 1))),
        ((1, 1, 1), None, ((1, 1, 1), None)),
        (None, (1, 1, 1), (None, (1, 1, 1))),
        ((1, 0, 1), (1, None, 2), None),
        ((1, 0, 1), None, None),
        (None, (1, 0, 1), None),
    ],
)
def test_a_row_that_leaves_or_enters_a_filter_is_deleted_or_inserted(
    con: duckdb.DuckDBPyConnection, was: Row | None, now: Row | None, ends: Any
) -> None:
    assert followed(con, POSITIVE, was, now) == ends


ON_MORE = condition("`l.a` = `r.id` and `l.b` = `r.a` and `r.b` > `l.id`")


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize(
    ("on", "was", "now", "partners"),
    [
        (PARTNERS, (1, 1, 1), (1, 2, 2), ((1, 1, 10), (2, 2, None))),
        (PARTNERS, (1, 1, 1), (1, 3, 3), ((1, 1, 10), None)),
        (PARTNERS, (1, 3, 3), (1, 1, 1), (None, (1, 1, 10))),
        (PARTNERS, (1, 1, 1), (1, None, 1), ((1, 1, 10), None)),
        (PARTNERS, (1, 3, 3), (1, None, None), (None, None)),
        (ON_MORE, (1, 1, 1), (1, 2, 2), ((1, 1, 10), None)),
        (ON_MORE, (11, 1, 1), (11, 2, 2), (None, None)),
    ],
)
def test_a_row_finds_a_partner_for_what_it_is_and_one_for_what_it_was(
    con: duckdb.DuckDBPyConnection, kind: Any, on: Any, was: Row, now: Row, partners: tuple[Row | None, Row | None]
) -> None:
    ends = tuple(
        (*row, *(partner or (None, None, None))) if partner or kind == "left" else None
        for row, partner in zip((was, now), partners, strict=True)
    )
    assert followed(con, Join(kind, L, R, on), was, now) == (ends if any(ends) else None)


@pytest.mark.parametrize("kind", ["semi", "anti"])
@pytest.mark.parametrize(
    ("on", "was", "now", "flags"),
    [
        (BY_VALUE, (5, 1, 1), (5, 2, 1), (True, True)),
        (BY_VALUE, (5, 1, 1), (5, 3, 1), (True, False)),
        (BY_VALUE, (5, None, 1), (5, 2, 1), (False, True)),
        (BY_VALUE, (5, 3, 1), (5, None, 1), (False, False)),
        (BY_KEY, (1, 1, 1), (1, 2, 1), (True, True)),
        (BY_KEY, (5, 1, 1), (5, 2, 1), (False, False)),
    ],
)
def test_a_row_is_asked_for_once_however_many_partners_it_has(
    con: duckdb.DuckDBPyConnection, kind: Any, on: Any, was: Row, now: Row, flags: tuple[bool, bool]
) -> None:
    ends = tuple(row if is_found == (kind == "semi") else None for row, is_found in zip((was, now), flags, strict=True))
    assert followed(con, SemiJoin(kind, L, H, on), was, now) == (ends if any(ends) else None)


SMALL = Filter(L, condition("`l.a` < 2"))
LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    "tree",
    [
        Join("left", SMALL, R, condition(f"`l.b` = `r.id` and `l.b` = `r.a` and `l.a` * {LARGEST} > `r.b`")),
        *slowly(
            Projection(SMALL, (("l.id", build_column("l.id")), ("product", condition(f"`l.a` * {LARGEST}")))),
            Filter(SMALL, condition(f"`l.a` * {LARGEST} > 0")),
            Join("left", SMALL, R, condition(f"`l.b` = `r.id` and `r.a` = 1 and `l.a` * {LARGEST} = `r.b`")),
        ),
    ],
)
def test_nothing_is_computed_of_a_row_that_is_not_there(con: duckdb.DuckDBPyConnection, tree: Node) -> None:
    """A product is too large for its type where the filter lets no row through, or where there is none."""
    for was, now in (((1, 2, 1), (1, 1, 1)), ((1, 1, 1), (1, 2, 1)), (None, (1, 1, 1)), ((1, 1, 1), None)):
        assert followed(con, tree, was, now) is not None
    with pytest.raises(duckdb.OutOfRangeException):
        followed(con, replace_filter(tree), (1, 2, 1), (1, 1, 1))


def replace_filter(node: Node) -> Node:
    """The same tree without what keeps large numbers away."""
    return L if node == SMALL else map_children(node, replace_filter)
