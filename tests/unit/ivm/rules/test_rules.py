"""Batches that are easily got wrong, each under a tree of every operator; and what the rules do not read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

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
    SetOperation,
    SpoolScan,
    UnionAll,
    WindowColumns,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.rules.apply import derive_delta, derive_touched
from arctic_runtime.ivm.rules.restrict import restrict_to_keys
from arctic_runtime.ivm.rules.terms import read_image, require_term
from arctic_runtime.model.names import TableName
from tests.unit.ivm import duck
from tests.unit.ivm.trees import (
    HEAP,
    ONE,
    TWO,
    Batch,
    Rows,
    Source,
    condition,
    difference,
    given,
    load,
    netted,
    picked,
    sources_of,
    sql,
)

L, R, H, AGAIN = ONE.scan("l"), TWO.scan("r"), HEAP.scan("h"), ONE.scan("again")
ON = condition("`l.a` = `r.id`")
ON_MORE = condition("`l.a` = `r.id` and `l.b` <= `r.b`")
ON_HEAP = condition("`l.a` = `h.a`")
TO_ONE = condition("`r.id` = `l.id`")
PAIRS = (("x", build_column("l.a")), ("y", build_column("l.b")))
COPIES_AGAIN = (("s", build_column("again.a")), ("t", build_column("again.b")))
COPIES = (("u", build_column("h.a")), ("v", build_column("h.b")))
GROUPS = Aggregate(H, ("h.a",), (("n", condition("count(*)")), ("sum", condition("sum(`h.b`)"))))
COUNTED = Aggregate(AGAIN, (), (("all", condition("count(*)")),))
RANKED = WindowColumns(L, ("l.a",), (("top", condition("max(`l.b`) over (partition by `l.a`)")),))

TREES: dict[str, Node] = {
    "scan": H,
    "project": Projection(H, COPIES),
    "filter": Filter(L, condition("`l.a` = 1 or `l.b` is null")),
    "explode": Explode(L, condition("explode(array(`l.a`, `l.b`))"), ("e",), False),
    "inner join": Join("inner", L, R, ON_MORE),
    "left join": Join("left", L, R, ON_MORE),
    "left join to a key": Join("left", R, L, TO_ONE),
    "full join": Join("full", L, R, ON_MORE),
    "full join, merged": Projection(
        Join("full", L, R, ON), (("k", condition("coalesce(`l.a`, `r.id`)")), ("w", build_column("r.b")))
    ),
    "left join, nulls equal": Join("left", L, H, condition("`l.a` <=> `h.a`")),
    "inner join, nulls equal": Join("inner", L, H, condition("`l.a` <=> `h.a` and `l.b` <=> `h.b`")),
    "joined to groups, nulls equal": Join("left", L, GROUPS, condition("`l.a` <=> `h.a`")),
    "all pairs": Join("inner", L, R, None),
    "joined to itself": Join("left", L, AGAIN, condition("`l.a` = `again.id`")),
    "three tables": Join("left", Join("inner", L, R, ON), H, ON_HEAP),
    "semi join": SemiJoin("semi", L, R, ON_MORE),
    "anti join": SemiJoin("anti", L, R, ON_MORE),
    "anti join to a key": SemiJoin("anti", R, L, TO_ONE),
    "semi join to a key": SemiJoin("semi", R, L, TO_ONE),
    "semi join to a single row": SemiJoin("semi", L, COUNTED, condition("`l.a` < `all`")),
    "anti join to a single row": SemiJoin("anti", GROUPS, COUNTED, condition("`h.a` = `all` - 2")),
    "semi join to a single row, if it is there": SemiJoin(
        "semi", R, Filter(COUNTED, condition("`all` <> 4")), condition("coalesce(`all`, 1) >= `r.b` or `r.b` is null")
    ),
    "semi join to any single row": SemiJoin("semi", R, Filter(COUNTED, condition("`all` > 3")), None),
    "left join to a key and more": Join("left", R, L, condition("`r.id` = `l.id` and `l.b` <= `r.b`")),
    "left join to groups of a key": Join("left", R, GROUPS, condition("`r.id` = `h.a`")),
    "groups": GROUPS,
    "one group": Aggregate(H, (), (("n", condition("count(*)")),)),
    "joined to groups": Join("left", L, GROUPS, ON_HEAP),
    "groups of a join": Aggregate(Join("left", L, R, ON), ("l.a",), (("n", condition("count(`r.b`)")),)),
    "window": RANKED,
    "the top of each window": Filter(RANKED, condition("`l.b` = `top`")),
    "distinct": Distinct(Projection(H, COPIES)),
    "union": UnionAll((Projection(H, COPIES), Projection(L, PAIRS)), ("c", "d")),
    "intersect": SetOperation("intersect", False, Projection(H, COPIES), Projection(L, PAIRS), ("c", "d")),
    "except all": SetOperation("except", True, Projection(H, COPIES), Projection(L, PAIRS), ("c", "d")),
}

OLD: dict[Source, Rows] = {
    ONE: [(0, 1, 1), (1, 1, 2), (2, 2, None), (3, None, 0)],
    TWO: [(0, 1, 1), (1, 1, 2), (1, 2, 2), (2, 1, None)],
    HEAP: [(1, 1, 0), (1, 1, 0), (2, None, 1), (None, 0, 0)],
}

BATCHES: dict[str, dict[Source, Rows]] = {
    "nothing": {},
    "inserts": {ONE: [*OLD[ONE], (4, 1, 1)], TWO: [*OLD[TWO], (1, 0, 0)], HEAP: [*OLD[HEAP], (1, 1, 0), (3, 3, 3)]},
    "both sides of a join deleted": {ONE: OLD[ONE][:1], TWO: OLD[TWO][:1]},
    "a group emptied": {HEAP: OLD[HEAP][2:]},
    "a group moved through null": {HEAP: [(None, 1, 0), (1, 1, 0), (2, None, 1), (2, 0, 0)]},
    "join keys to null and from it": {ONE: [(0, None, 1), (1, 1, 2), (2, 2, None), (3, 1, 0)]},
    "keys moved": {ONE: [(7, 1, 1), (0, 1, 2), (2, 2, None), (3, None, 0)], TWO: [(2, 1, 1), *OLD[TWO][1:3]]},
    "key and value changed at once": {TWO: [(1, 0, None), (0, 1, 2), (1, 2, 1), (2, 1, 2)]},
    "copies of a row": {HEAP: [*OLD[HEAP][1:], (2, None, 1)]},
    "everything gone": {ONE: [], TWO: [], HEAP: []},
}


QUICK = ("a group moved through null", "keys moved")
"""What every run tries."""


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


@dataclass(frozen=True)
class Queries:
    """What is asked of a tree for each batch: its rows before and after, and what the rules say came and went."""

    old: str
    new: str
    delta: str
    touched: str
    touched_first: str


@pytest.fixture(scope="module")
def queries() -> dict[str, Queries]:
    return {name: _queries(tree, sources_of(tree)) for name, tree in TREES.items()}


def _queries(tree: Node, sources: frozenset[TableName]) -> Queries:
    asked = (
        derive_delta(tree, sources),
        *(derive_touched(tree, names, sources) for names in (list_columns(tree), list_columns(tree)[:1])),
    )
    return Queries(
        sql(read_image(tree, "old", sources)),
        sql(tree),
        *(sql(rows_tree) for rows_tree in asked if rows_tree is not None),
    )


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in BATCHES if name not in QUICK)]
)
def test_a_batch_is_followed_by_every_operator(
    con: duckdb.DuckDBPyConnection, queries: dict[str, Queries], name: str
) -> None:
    load(con, Batch(OLD, {**OLD, **BATCHES[name]}))
    for operator, asked in queries.items():
        change = difference(duck.fetch(con, asked.new), duck.fetch(con, asked.old))
        assert netted(duck.fetch(con, asked.delta)) == change, operator
        assert set(duck.fetch(con, asked.touched)) >= set(change), operator
        assert set(duck.fetch(con, asked.touched_first)) >= {row[:1] for row in change}, operator


def test_a_restriction_has_the_rows_that_are_given(con: duckdb.DuckDBPyConnection) -> None:
    load(con, Batch(OLD, OLD))
    for operator, tree in TREES.items():
        rows, names = duck.fetch(con, sql(tree)), list_columns(tree)
        for asked in {names[:1], names[-1:], tuple(dict.fromkeys((names[0], names[-1])))}:
            values = {(None,) * len(asked), (1,) * len(asked), (2, None)[: len(asked)]}
            given(con, "asked", asked, values)
            kept = {row: copies for row, copies in rows.items() if picked([row], tree, asked) <= values}
            assert duck.fetch(con, sql(restrict_to_keys(tree, asked, SpoolScan("asked", asked)))) == kept, (
                operator,
                asked,
            )


@pytest.mark.slow
def test_each_batch_but_one_changes_what_operators_give_and_all_are_changed(
    con: duckdb.DuckDBPyConnection, queries: dict[str, Queries]
) -> None:
    changed: dict[str, set[str]] = {}
    for name, rows in BATCHES.items():
        load(con, Batch(OLD, {**OLD, **rows}))
        asked = queries.items()
        changed[name] = {tree for tree, image in asked if duck.fetch(con, image.new) != duck.fetch(con, image.old)}
    assert [name for name, trees in changed.items() if not trees] == ["nothing"]
    assert set().union(*changed.values()) == set(TREES)


def reads(node: Node | None) -> set[str]:
    """The images that a tree reads."""
    return {f"{scan.source.name} {scan.image}" for scan in list_scans(node)} if node else set()


def changed(*sources: Source) -> frozenset[TableName]:
    return frozenset(source.name for source in sources)


def test_what_did_not_change_adds_no_term() -> None:
    delta = derive_delta(Join("inner", L, Join("inner", R, H, condition("`r.b` = `h.b`")), ON), changed(ONE))
    assert reads(delta) == {"one delta", "two new", "heap new"}
    assert [node for node in walk_tree(delta) if isinstance(node, UnionAll)] == []


def test_where_there_is_one_partner_at_most_what_changed_is_joined_to_all_rows_once() -> None:
    for tree in (Join("left", R, L, TO_ONE), SemiJoin("anti", R, L, TO_ONE), SemiJoin("semi", R, L, TO_ONE)):
        assert [scan.image for scan in list_scans(require_term(derive_delta(tree, changed(ONE))))] == ["new", "delta"]


def test_partners_found_by_other_columns_are_read_before_and_after() -> None:
    assert reads(derive_delta(Join("left", L, R, ON), changed(TWO))) == {"one new", "two delta", "two old", "two new"}


def test_rows_are_touched_without_reading_what_they_are_only_narrowed_by() -> None:
    tree = SemiJoin("semi", Join("inner", L, R, ON), H, ON_HEAP)
    assert reads(derive_touched(tree, ("l.id",), changed(ONE))) == {"one delta"}


def test_values_that_equal_those_of_the_changed_side_are_read_there() -> None:
    assert reads(derive_touched(Join("left", L, R, ON), ("l.a",), changed(TWO))) == {"two delta"}
    assert reads(derive_touched(Join("left", L, R, ON), ("l.id",), changed(TWO))) == {"two delta", "one new"}


def test_groups_and_windows_are_touched_without_being_computed() -> None:
    assert derive_touched(Filter(GROUPS, condition("`n` > 1")), ("h.a",), changed(HEAP)) == derive_touched(
        H, ("h.a",), changed(HEAP)
    )
    touched_keys = derive_touched(Filter(RANKED, condition("`top` = `l.b`")), ("l.id",), changed(ONE))
    assert not any(isinstance(node, WindowColumns) for node in walk_tree(touched_keys))


def test_groups_that_partners_have_values_of_are_not_computed_to_find_rows() -> None:
    tree = SemiJoin("semi", L, GROUPS, condition("`l.a` = `h.a` and `l.b` < `n`"))
    assert reads(derive_touched(tree, ("l.id",), changed(HEAP))) == {"one new", "heap delta"}
    affected = [
        node for node in walk_tree(derive_delta(tree, changed(HEAP))) if isinstance(node, SemiJoin) and node.left == L
    ]
    assert [part for node in affected for part in walk_tree(node.right) if isinstance(part, Aggregate)] == []


def test_rows_joined_by_more_or_less_are_found_by_that() -> None:
    touched_keys = derive_touched(Join("inner", L, R, condition("`l.a` < `r.b`")), ("l.id",), changed(TWO))
    assert [node.on for node in walk_tree(touched_keys) if isinstance(node, SemiJoin)] == [condition("`l.a` < `r.b`")]


def test_only_outer_joins_are_looked_for_rows_without_a_partner() -> None:
    inner, left = (derive_touched(Join(kind, L, R, ON), ("l.id", "r.a"), changed(ONE)) for kind in ("inner", "left"))
    assert reads(inner) == {"one delta", "two new"}
    assert [scan.image for scan in list_scans(inner)].count("delta") == 1
    assert [scan.image for scan in list_scans(left)].count("delta") == 1
    assert [any(isinstance(part, Explode) for part in walk_tree(tree)) for tree in (inner, left)] == [False, True]


def test_only_the_groups_that_changed_are_computed_again() -> None:
    tree = Aggregate(H, ("h.a", "h.b"), (("n", condition("count(*)")),))
    assert _unrestricted(derive_delta(tree, changed(HEAP))) == {"delta"}


def test_only_the_groups_of_changed_rows_are_computed_to_join_them() -> None:
    assert _unrestricted(derive_delta(Join("left", L, GROUPS, ON_HEAP), changed(ONE))) == {"delta"}


def test_every_join_more_adds_the_same_to_what_is_read_again() -> None:
    tree: Node = TWO.scan("t0")
    numbers: list[int] = []
    for number in range(1, 16):
        on = condition(f"`t{number - 1}.b` = `t{number}.id`")
        tree = Join("left", tree, TWO.scan(f"t{number}"), on)
        numbers.append(len(list_scans(derive_touched(tree, list_columns(tree), changed(TWO)))))
    steps = [after - before for before, after in pairwise(numbers)]
    assert {after - before for before, after in pairwise(steps)} == {1}


def test_a_plan_that_reads_hundreds_of_sources_is_refused() -> None:
    tree: Node = TWO.scan("t0")
    for number in range(1, 40):
        on = condition(f"`t{number - 1}.b` = `t{number}.id`")
        tree = Join("inner", tree, TWO.scan(f"t{number}"), on)
    with pytest.raises(NotMaintained, match="TOO_COMPLEX"):
        derive_touched(tree, list_columns(tree), changed(TWO))


def test_a_union_of_unions_is_one() -> None:
    delta = derive_delta(UnionAll((TREES["union"], Projection(AGAIN, COPIES_AGAIN)), ("e", "f")), changed(*OLD))
    unions = [node for node in walk_tree(delta) if isinstance(node, UnionAll)]
    assert [len(node.inputs) for node in unions] == [3]


def _unrestricted(node: Node) -> set[str]:
    """The images that are read without a restriction."""
    restricted = [part.left for part in walk_tree(node) if isinstance(part, SemiJoin)]
    return {scan.image for scan in list_scans(node) if scan not in restricted}


def test_a_condition_is_kept_where_its_columns_are_at_hand() -> None:
    touched_keys = derive_touched(Filter(L, condition("`l.b` > 0")), ("l.id",), changed(ONE))
    assert any(isinstance(node, Filter) for node in walk_tree(touched_keys))


RESTRICTED = {
    "project": (Projection(H, COPIES), ("u", "v")),
    "filter": (Filter(H, condition("`h.b` > 0")), ("h.a",)),
    "explode": (TREES["explode"], ("l.id",)),
    "left join": (Join("left", L, R, ON), ("l.a",)),
    "inner join, by the left": (Join("inner", L, R, ON), ("l.a",)),
    "inner join, by the right": (Join("inner", L, R, ON), ("r.id",)),
    "inner join, by both": (Join("inner", L, R, ON), ("l.id", "r.a")),
    "semi join": (SemiJoin("anti", L, R, ON), ("l.a",)),
    "groups": (GROUPS, ("h.a",)),
    "window": (RANKED, ("l.a",)),
    "window, by its rows": (RANKED, ("l.id",)),
    "union": (TREES["union"], ("d",)),
    "intersect": (TREES["intersect"], ("c",)),
    "distinct": (Distinct(H), ("h.c",)),
}


@pytest.mark.parametrize(("tree", "names"), RESTRICTED.values(), ids=RESTRICTED)
def test_a_restriction_reaches_all_that_is_read(tree: Node, names: tuple[str, ...]) -> None:
    keys = restrict_to_keys(tree, names, SpoolScan("asked", names))
    restricted = [node.left for node in walk_tree(keys) if isinstance(node, SemiJoin)]
    assert [scan for scan in list_scans(keys) if scan not in restricted] == []


def test_a_restriction_by_what_an_operator_computes_stays_above_it() -> None:
    keys = restrict_to_keys(GROUPS, ("n",), SpoolScan("asked", ("n",)))
    assert isinstance(keys, SemiJoin)
    assert keys.left == GROUPS


def test_a_restriction_of_a_full_join_stays_above_it() -> None:
    tree = Join("full", L, R, ON)
    keys = restrict_to_keys(tree, ("l.a",), SpoolScan("asked", ("l.a",)))
    assert isinstance(keys, SemiJoin)
    assert keys.left == tree


def test_a_column_that_an_inner_join_equates_is_not_null_in_a_restriction() -> None:
    keys = restrict_to_keys(Join("inner", L, R, ON), ("l.a",), SpoolScan("asked", ("l.a",)))
    conditions = {node.on for node in walk_tree(keys) if isinstance(node, SemiJoin)}
    assert conditions == {condition(f"`{name}` = `__arctic_given_0`") for name in ("l.a", "r.id")}


def test_a_column_that_a_join_equates_with_nulls_may_be_null_in_a_restriction() -> None:
    keys = restrict_to_keys(TREES["inner join, nulls equal"], ("l.a",), SpoolScan("asked", ("l.a",)))
    conditions = {node.on for node in walk_tree(keys) if isinstance(node, SemiJoin)}
    assert conditions == {condition(f"`{name}` <=> `__arctic_given_0`") for name in ("l.a", "h.a")}


def test_nulls_are_equal_but_in_keys_where_there_are_none() -> None:
    by_key, by_value = (restrict_to_keys(L, names, SpoolScan("asked", names)) for names in (("l.id",), ("l.a",)))
    assert isinstance(by_key, SemiJoin)
    assert isinstance(by_value, SemiJoin)
    assert by_key.on == condition("`l.id` = `__arctic_given_0`")
    assert by_value.on == condition("`l.a` <=> `__arctic_given_0`")
