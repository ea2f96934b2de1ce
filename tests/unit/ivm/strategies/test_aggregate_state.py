"""Results kept by their groups' totals: batch after batch they stay what the query gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import duckdb
import pytest
from sqlglot import exp

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
from arctic_runtime.ivm.render import name_input
from arctic_runtime.ivm.rules.terms import read_image
from arctic_runtime.ivm.strategies.aggregate_state import (
    LOST,
    ROWS,
    TOTALS,
    AggregateState,
    list_aggregate_states,
    plan_aggregate_state,
)
from arctic_runtime.ivm.strategies.maintain import AffectedKeys, Deltas, Facts, Maintenance, plan_maintenance
from arctic_runtime.model.names import TableName
from tests.unit.ivm import duck
from tests.unit.ivm.trees import (
    FEW,
    HEAP,
    ONE,
    SOURCES,
    STEP,
    TWO,
    Bag,
    Batch,
    Rows,
    Source,
    Trees,
    condition,
    following,
    given,
    load,
    picked,
    random_batch,
    rows,
    sources_of,
    types,
)

Key = tuple[str, ...]
Row = tuple[Any, ...]

L, R, H = ONE.scan("l"), TWO.scan("r"), HEAP.scan("h")


def plan_state(tree: Node, key: Key, *changed: Source) -> Maintenance:
    return plan_maintenance(tree, key, of(*changed), Facts(types=types(tree), few_rows=True))


def of(*changed: Source) -> frozenset[TableName]:
    return frozenset(source.name for source in changed)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


@dataclass
class Kept:
    """A result and its totals, as whoever carries plans out keeps them; `state` says what the totals are of.

    `again` counts the groups that were computed again.
    """

    con: duckdb.DuckDBPyConnection
    tree: Node
    key: Key
    result: Bag = field(default_factory=Counter)
    plan_aggregate_state: Bag = field(default_factory=Counter)
    state: Node | None = None
    again: int = 0

    def follow(self, plan: AggregateState, changed: frozenset[TableName]) -> None:
        if self.state != plan.state:
            self.plan_aggregate_state, self.state = rows(self.con, read_image(plan.state, "old", changed)), plan.state
        moved = rows(self.con, plan.state_changes)
        before, self.plan_aggregate_state = self.plan_aggregate_state, self._moved_on(plan, moved)
        touched = keys_of(plan, moved)
        was = self._shown(plan, plan.old_result, before, touched)
        now = self._shown(plan, plan.result, self.plan_aggregate_state, touched)
        assert was <= self.result
        assert not picked(now, self.tree, self.key) & picked(self.result - was, self.tree, self.key)
        self.result = self.result - was + now

    def _moved_on(self, plan: AggregateState, moved: Bag) -> Bag:
        added, lost = added_up(plan, self.plan_aggregate_state, moved)
        if not lost:
            return added
        self.again += len(lost)
        if plan.keys:
            given(self.con, LOST, plan.keys, keys_of(plan, lost))
        return added - lost + rows(self.con, plan.recomputed)

    def _shown(self, plan: AggregateState, result: Node, bag: Bag, touched: set[Row]) -> Bag:
        """The rows of the touched groups; of all groups where there is one, or where one matters to others."""
        takes_all = not plan.keys or not plan.by_group
        kept = [row for row in bag.elements() if takes_all or row[: len(plan.keys)] in touched]
        given(self.con, TOTALS, (*plan.keys, *plan.names), kept)
        return rows(self.con, result)


def keys_of(plan: AggregateState, rows: Iterable[Row]) -> set[Row]:
    return {row[: len(plan.keys)] for row in rows}


def added_up(plan: AggregateState, before: Bag, moved: Bag) -> tuple[Bag, Bag]:
    """All rows of a group as one, and no group without rows, unless there is just one group; and which are lost."""
    groups: dict[Row, list[Row]] = {}
    for row in (*before.elements(), *moved.elements()):
        groups.setdefault(row[: len(plan.keys)], []).append(row[len(plan.keys) :])
    together = [(key, *_together(plan, group)) for key, group in groups.items()]
    is_there = [((*key, *values), is_lost) for key, values, is_lost in together if not plan.keys or values[0]]
    return Counter(row for row, _ in is_there), Counter(row for row, is_lost in is_there if is_lost)


def _together(plan: AggregateState, rows: Sequence[Row]) -> tuple[Row, bool]:
    """Sums and extremes of a group's rows, and whether one of these is lost; rows that are kept tell of none gone."""
    width, gone_at = len(plan.sums), len(plan.names)
    values: list[Any] = [sum(row[place] for row in rows) for place in range(width)]
    is_lost = False
    for place, extreme in enumerate(plan.extremes):
        pick = min if extreme.kind == "min" else max
        now = pick((row[width + place] for row in rows if row[width + place] is not None), default=None)
        gone = [row[gone_at + place] for row in rows if row[gone_at:] and row[gone_at + place] is not None]
        is_lost |= any(now is None or now == value or pick(now, value) == value for value in gone)
        values.append(now)
    return tuple(values), is_lost


def keep(con: duckdb.DuckDBPyConnection, tree: Node, key: Key, batches: Iterable[Batch]) -> tuple[int, int]:
    """Follows batches, comparing with the query after each.

    Returns how many were followed by totals, and how many groups were computed again meanwhile.
    """
    kept, followed = Kept(con, tree, key), 0
    for number, batch in enumerate(batches):
        load(con, batch)
        changed = batch.changed & sources_of(tree)
        if not number:
            kept.result = rows(con, read_image(tree, "old", changed))
        plan = plan_of(tree, key, changed)
        if plan is None:
            kept.result, kept.state = rows(con, tree), None
            continue
        kept.follow(plan, changed)
        assert kept.result == rows(con, tree), tree
        assert kept.plan_aggregate_state == rows(con, plan.state), tree
        followed += 1
    return followed, kept.again


def plan_of(tree: Node, key: Key, changed: frozenset[TableName]) -> AggregateState | None:
    try:
        plan = plan_maintenance(tree, key, changed, Facts(types=types(tree), few_rows=True, few_row_sources=LITTLE))
    except NotMaintained:
        return None
    return plan if isinstance(plan, AggregateState) else None


LITTLE = of(*SOURCES)


class Groups(Trees):
    """Random trees whose totals are extremes as well."""

    def _total(self, child: Node) -> exp.Expr:
        if self.random.random() < 0.6:
            return super()._total(child)
        makers = (lambda: self._column(child), lambda: self._expression(child))
        call = self.random.choice((exp.Min, exp.Max))(this=self.random.choice(makers)())
        is_all = self.random.random() < 0.7
        return call if is_all else exp.Filter(this=call, expression=exp.Where(this=self._condition(child)))


def random_trees(random: Random, count: int, depths: Sequence[int]) -> Iterator[tuple[Node, Key]]:
    """Trees with a proven key of which some source's changes are followed by totals."""
    while count:
        tree = Groups(random, linear=random.random() < 0.5).added(random.choice(depths))
        keys = find_unique_keys(tree)
        key = tuple(random.choice(keys)) if keys else list_columns(tree)
        if any(plan_of(tree, key, frozenset({source})) for source in sources_of(tree)):
            count -= 1
            yield tree, key


def chain(random: Random, count: int) -> Iterator[Batch]:
    batch = random_batch(random)
    for _ in range(count):
        yield batch
        batch = following(random, batch)


def slowly(seeds: Iterable[int]) -> list[Any]:
    return [pytest.param(seed, marks=pytest.mark.slow) for seed in seeds]


SEEDS = [0, *slowly(range(1, FEW)), *slowly(range(FEW, 302, STEP))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_result_follows_many_batches_by_its_aggregate_state(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    followed = 0
    for number in range(seed, seed + 1 if seed < FEW else seed + STEP):
        random = Random(number)
        for tree, key in random_trees(random, 3, (0, 1) if seed < FEW else (0, 1, 2, 3)):
            followed += keep(con, tree, key, chain(random, 5))[0]
    assert followed


def calls(*texts: str, name: str = "c") -> tuple[tuple[str, exp.Expr], ...]:
    return tuple((f"{name}{place}", condition(text)) for place, text in enumerate(texts))


TEXTS = (
    "count(*)",
    "sum(`h.b`)",
    "count(`h.b`)",
    "count_if(`h.b` > 5) filter (where `h.c` = 1)",
    "sum(`h.c`) filter (where `h.b` = 6)",
)
ADDED = calls(*TEXTS)
GROUPS = Aggregate(H, ("h.a",), ADDED)
ONE_GROUP = Aggregate(H, (), ADDED)
HAVING = Filter(GROUPS, condition("`c1` > 5"))
SOLID = Filter(H, condition("`h.b` > 5"))
OTHER = Aggregate(HEAP.scan("i"), ("i.a",), calls(*(text.replace("h.", "i.") for text in TEXTS), name="d"))
PAIRS = Aggregate(H, ("h.a", "h.b"), calls("count(*)"))
LOOKED_UP = Join("left", GROUPS, L, condition("`h.a` = `l.id`"))

ENDS = calls("min(`h.b`)", "max(`h.b`)", "sum(`h.c`)", "max(`h.c`) filter (where `h.b` > 5)", "min(`h.b` + `h.c`)")

NUMBERED = Explode(H, condition("explode(array(0, 1, 3))"), ("g",), False)
ROLLUP = Aggregate(
    Projection(
        NUMBERED,
        (
            ("g", build_column("g")),
            ("x", condition("case when `g` in (0, 1) then `h.a` end")),
            ("y", condition("case when `g` in (0) then `h.c` end")),
            ("h.b", build_column("h.b")),
        ),
    ),
    ("x", "y", "g"),
    calls("count(*)", "sum(`h.b`)", "max(`h.b`)"),
)

TREES: dict[str, tuple[Node, Key]] = {
    "groups": (GROUPS, ("h.a",)),
    "groups of a rollup": (ROLLUP, ("x", "y", "g")),
    "groups of a rollup by a value that is not proven to be a key": (
        Projection(
            Filter(ROLLUP, condition("`g` <> 0")),
            (("k", condition("coalesce(`x`, `g` * 7)")), ("s", build_column("c1"))),
        ),
        ("k",),
    ),
    "one group": (ONE_GROUP, ()),
    "one group under a condition": (Filter(ONE_GROUP, condition("`c1` > 5")), ()),
    "one group of values that are never null": (Aggregate(SOLID, (), calls("sum(`h.b`)")), ()),
    "extremes": (Aggregate(H, ("h.a",), ENDS), ("h.a",)),
    "extremes of one group": (Aggregate(H, (), ENDS), ()),
    "extremes of several sources": (
        Aggregate(Join("left", H, HEAP.scan("i"), condition("`h.a` = `i.b`")), ("h.a",), calls("max(`i.c`)")),
        ("h.a",),
    ),
    "having": (HAVING, ("h.a",)),
    "a group of each row": (PAIRS, ("h.a", "h.b")),
    "distinct rows": (Distinct(Projection(H, (("x", build_column("h.a")), ("y", condition("`h.b` + 1"))))), ("x", "y")),
    "groups of groups": (Aggregate(GROUPS, ("c0",), calls("sum(`c1`)", "count(*)", name="d")), ("c0",)),
    "distinct sizes of groups": (Distinct(Projection(GROUPS, (("n", build_column("c0")),))), ("n",)),
    "groups joined to a key": (LOOKED_UP, ("h.a",)),
    "groups compared to the greatest of them": (
        SemiJoin("semi", GROUPS, Aggregate(OTHER, (), calls("max(`d1`)", name="e")), condition("`c1` = `e0`")),
        ("h.a",),
    ),
    "sums over groups alike": (
        WindowColumns(GROUPS, ("c0",), calls("sum(`c1`) over (partition by `c0`)", name="w")),
        ("h.a",),
    ),
    "the groups of the greatest sums": (
        Filter(
            WindowColumns(GROUPS, (), calls("row_number() over (order by `c1` desc, `h.a`)", name="n")),
            condition("`n0` <= 1"),
        ),
        ("h.a",),
    ),
    "the rank of groups": (WindowColumns(GROUPS, (), calls("rank() over (order by `c1`)", name="r")), ("h.a",)),
    "groups beside the same groups": (Join("inner", GROUPS, OTHER, condition("`h.a` = `d0`")), ("h.a", "i.a")),
    "only groups without a partner": (SemiJoin("anti", GROUPS, L, condition("`h.a` = `l.id`")), ("h.a",)),
    "one group of a table with itself": (
        Aggregate(Join("inner", H, HEAP.scan("i"), condition("`h.a` = `i.b`")), (), calls("sum(`h.b` + `i.a`)")),
        (),
    ),
}

STATES: dict[str, Rows] = {
    "nothing": [],
    "groups": [(1, 6, 1), (1, None, None), (2, 7, 1)],
    "nothing but nulls in a group": [(1, None, None), (2, 7, 1)],
    "a group less": [(2, 7, 1)],
    "the group is back, and null is a group": [(2, 7, 1), (1, 9, 2), (None, 6, 1)],
    "a row in another group, and a sum of zero": [(0, 7, 1), (1, -9, 2), (1, 9, 2), (None, 1, 1)],
    "copies": [(1, 6, 0), (1, 6, 0), (1, 6, 0)],
    "a copy less": [(1, 6, 0), (1, 6, 0)],
    "below a condition": [(1, 5, 0)],
    "above it again": [(1, 5, 0), (1, 1, 0)],
    "nothing left": [],
}

PARTNERS: Rows = [(1, 0, 5), (2, None, 6)]


def history(states: Sequence[Rows]) -> list[Batch]:
    return [Batch({ONE: PARTNERS, HEAP: before}, {ONE: PARTNERS, HEAP: after}) for before, after in pairwise(states)]


TELLING = ("extremes", "groups of groups", "one group under a condition")
"""The trees that every run tries; the others are slow ones."""


@pytest.mark.parametrize(
    ("tree", "key"),
    [pytest.param(*tree, id=name, marks=() if name in TELLING else pytest.mark.slow) for name, tree in TREES.items()],
)
def test_every_batch_of_a_history_is_added_to_the_aggregate_state(
    con: duckdb.DuckDBPyConnection, tree: Node, key: Key
) -> None:
    followed, _ = keep(con, tree, key, history([*STATES.values()]))
    assert followed == len(STATES) - 1


def test_one_group_without_rows_counts_none_and_has_no_sum(con: duckdb.DuckDBPyConnection) -> None:
    (batch,) = history([[(1, 6, 1)], []])
    load(con, batch)
    kept = Kept(con, ONE_GROUP, (), rows(con, read_image(ONE_GROUP, "old", of(HEAP))))
    plan = plan_state(ONE_GROUP, (), HEAP)
    assert isinstance(plan, AggregateState)
    kept.follow(plan, of(HEAP))
    assert kept.result == Counter([(0, None, 0, 0, None)])
    assert kept.plan_aggregate_state == Counter([(0,) * len(plan.names)])


# What becomes of the group 1, whose least is 3 and whose greatest is 5, and how many groups are computed again.

BATCHES: dict[str, tuple[int, Rows]] = {
    "what came is less": (0, [(1, 3, 0), (1, 5, 0), (1, 2, 0)]),
    "what went lies between": (0, [(1, 3, 0), (1, 5, 0)]),
    "the least went": (1, [(1, 4, 0), (1, 5, 0)]),
    "the least went as one like it came": (0, [(1, 3, 1), (1, 4, 0), (1, 5, 0)]),
    "the least went as a lesser one came": (0, [(1, 1, 0), (1, 4, 0), (1, 5, 0)]),
    "the least went as another came": (1, [(1, 4, 0), (1, 4, 1), (1, 5, 0)]),
    "the least moved to another group": (1, [(2, 3, 0), (1, 4, 0), (1, 5, 0)]),
    "the least became null": (1, [(1, None, 0), (1, 4, 0), (1, 5, 0)]),
    "nothing but nulls is left": (1, [(1, None, 0)]),
    "all went": (0, []),
    "all went and others came": (1, [(1, 4, 0)]),
    "others beyond them came": (0, [(1, 1, 0), (1, 9, 0)]),
}


@pytest.mark.parametrize(("again", "after"), BATCHES.values(), ids=BATCHES)
def test_a_group_is_computed_again_where_its_extreme_went(
    con: duckdb.DuckDBPyConnection, again: int, after: Rows
) -> None:
    tree = Aggregate(H, ("h.a",), calls("min(`h.b`)", "max(`h.b`)", "sum(`h.b`)"))
    (batch,) = history([[(1, 3, 0), (1, 4, 0), (1, 5, 0), (3, 1, 0)], [*after, (3, 1, 0)]])
    assert keep(con, tree, ("h.a",), [batch]) == (1, again)


def test_a_row_that_comes_by_one_term_and_goes_by_another_is_no_extreme(con: duckdb.DuckDBPyConnection) -> None:
    """Old pairs are (1, 1) and new ones (2, 2); the one of an old row with a new one is of neither."""
    again = HEAP.scan("i")
    joined = Join("inner", H, again, condition("`h.c` = `i.c`"))
    tree = Aggregate(joined, ("h.c",), calls("max(`h.b` * 10 - `i.b`)"))
    assert keep(con, tree, ("h.c",), history([[(1, 1, 0)], [(1, 2, 0)]])) == (1, 0)


def test_only_lost_groups_are_read_again() -> None:
    plan = plan_state(grouped("min(`h.b`)"), ("h.a",), HEAP)
    assert isinstance(plan, AggregateState)
    assert [scan.image for scan in list_scans(plan.state_changes)] == ["delta"]
    assert [scan.image for scan in list_scans(plan.recomputed)] == ["new"]
    (only,) = (node for node in walk_tree(plan.recomputed) if isinstance(node, SemiJoin))
    assert only.left == H


def test_aggregate_state_is_shared_by_all_aggregates_that_follow_from_it() -> None:
    plan = plan_state(
        Aggregate(H, ("h.a",), calls("sum(`h.b`)", "count(`h.b`)", "sum(`h.b`)", "count(1)")), ("h.a",), HEAP
    )
    assert isinstance(plan, AggregateState)
    assert plan.names == (ROWS, "__arctic_total_1", "__arctic_total_2")


def test_the_least_whole_number_has_an_opposite(con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_aggregate_state(grouped("sum(`h.b`)"), ("h.a",), of(HEAP), {"h.b": "int"})
    assert plan is not None
    least = "select 1 as a, (-2147483648)::int as b, 0 as c, -1 as __arctic_weight"
    con.execute(f'create or replace table "{name_input(HEAP.name, "delta")}" as {least}')
    assert rows(con, plan.state_changes) == Counter([(1, -1, -1, 2147483648)])


def test_what_is_never_null_is_counted_by_the_rows() -> None:
    plan = plan_state(Aggregate(SOLID, ("h.a",), calls("count(`h.b`)", "sum(`h.b`)")), ("h.a",), HEAP)
    assert isinstance(plan, AggregateState)
    assert plan.names == (ROWS, "__arctic_total_1")


def test_nothing_but_the_changes_is_read_to_add_them() -> None:
    plan = plan_state(HAVING, ("h.a",), HEAP)
    assert isinstance(plan, AggregateState)
    assert [scan.image for scan in list_scans(plan.state_changes)] == ["delta"]
    assert list_scans(plan.result) == ()


def test_what_is_kept_does_not_depend_on_what_changed() -> None:
    tree = Aggregate(Join("inner", L, R, condition("`l.a` = `r.id`")), ("l.b",), calls("count(*)", "sum(`r.b`)"))
    plans = [plan_state(tree, ("l.b",), *changed) for changed in ((ONE,), (TWO,), (ONE, TWO))]
    assert len({plan.state for plan in plans if isinstance(plan, AggregateState)}) == 1
    assert len({plan.state_changes for plan in plans if isinstance(plan, AggregateState)}) == 3


def test_aggregate_state_can_be_described_without_knowing_the_changes() -> None:
    tree = Aggregate(Join("inner", L, R, condition("`l.a` = `r.id`")), ("l.b",), calls("count(*)", "max(`r.b`)"))
    plan = plan_state(tree, ("l.b",), ONE, TWO)
    assert isinstance(plan, AggregateState)
    assert [state.state for state in list_aggregate_states(tree, types(tree))] == [plan.state]
    assert not list(list_aggregate_states(grouped("first(`h.b`)"), {}))


@pytest.mark.parametrize("key", [("h.a",), ("c0",)])
def test_all_rows_are_compared_where_no_key_is_proven(key: Key) -> None:
    plan = plan_state(HAVING, key, HEAP)
    assert isinstance(plan, AggregateState)
    assert plan.by_group == (key == ("h.a",))


def grouped(call: str, child: Node = H) -> Node:
    return Aggregate(child, ("h.a",), calls(call))


def placed(call: str, *order: str) -> Node:
    """Counts of rows by a window's value; of the distinct rows, so that all their columns together have no ties."""
    by = ", ".join(f"`{name}`" for name in order)
    over = condition(f"{call} over (partition by `h.c` order by {by})")
    first = Filter(WindowColumns(Distinct(H), ("h.c",), (("w", over),)), condition("`w` = 1"))
    return Aggregate(first, ("h.c",), calls("count(*)"))


PLANNED: dict[str, tuple[Node, Key]] = {
    "a place among rows that the order tells apart": (placed("row_number()", "h.a", "h.b"), ("h.c",)),
    "a rank": (placed("rank()", "h.a"), ("h.c",)),
    "a sum of a partition": (placed("sum(`h.a`)", "h.a"), ("h.c",)),
    "a projection": (Projection(GROUPS, (("k", build_column("h.a")), ("v", condition("`c1` / 2")))), ("k",)),
    "groups on the right": (Join("inner", L, GROUPS, condition("`h.a` = `l.id`")), ("h.a",)),
    "partners that did not change": (SemiJoin("semi", GROUPS, L, condition("`h.a` < `l.id`")), ("h.a",)),
    "a union above": (UnionAll((GROUPS,), ("x", "u", "v", "w", "y", "z")), ("x",)),
    "several values counted": (grouped("count(`h.b`, `h.c`)"), ("h.a",)),
    "a union below": (Aggregate(UnionAll((H,), ("x", "y", "z")), ("x",), calls("sum(`z`)")), ("x",)),
    "a greatest value below": (
        Aggregate(grouped("max(`h.b`)"), ("c0",), calls("count(*)", name="d")),
        ("c0",),
    ),
}


@pytest.mark.parametrize(("tree", "key"), PLANNED.values(), ids=PLANNED)
def test_groups_of_exact_numbers_are_kept_by_aggregate_state(tree: Node, key: Key) -> None:
    assert isinstance(plan_state(tree, key, HEAP), AggregateState)


ROWS_BEFORE = condition("sum(`h.b`) over (partition by `h.c` order by `h.a` rows between 1 preceding and current row)")
RUNNING = Aggregate(
    Filter(WindowColumns(H, ("h.c",), (("w", ROWS_BEFORE),)), condition("`w` = 1")), ("h.c",), calls("count(*)")
)
NUMBER = condition("row_number() over (partition by `l.a` order by `l.b`)")
TIED = Filter(WindowColumns(L, ("l.a",), (("number", NUMBER),)), condition("`number` = `l.id`"))
UNEQUAL = Join("left", L, H, condition("`l.a` < `h.a`"))
ITSELF = Distinct(HEAP.scan("i"))

REFUSED: dict[str, tuple[Node, Key]] = {
    "the greatest two": (grouped("max(`h.b`, 2)"), ("h.a",)),
    "counted once each": (grouped("count(distinct `h.b`)"), ("h.a",)),
    "added once each": (grouped("sum(distinct `h.b`)"), ("h.a",)),
    "an average of whole numbers": (grouped("avg(`h.b`)"), ("h.a",)),
    "the first": (grouped("first(`h.b`)"), ("h.a",)),
    "groups that rows may lack": (Join("left", L, GROUPS, condition("`l.id` = `h.a`")), ("l.id",)),
    "a full join": (Join("full", GROUPS, L, condition("`h.a` = `l.id`")), ("h.a",)),
    "rows that changed beside one group": (Join("inner", ITSELF, ONE_GROUP, None), ("i.a", "i.b", "i.c")),
    "partners that changed": (SemiJoin("semi", GROUPS, HEAP.scan("i"), condition("`h.a` = `i.a`")), ("h.a",)),
    "partners that ties decide on": (SemiJoin("semi", GROUPS, TIED, condition("`h.a` = `l.a`")), ("h.a",)),
    "a row number of ties below": (placed("row_number()", "h.a"), ("h.c",)),
    "a sum of the rows before ties": (RUNNING, ("h.c",)),
    "the first below": (Aggregate(grouped("first(`h.b`)"), ("c0",), calls("count(*)", name="d")), ("c0",)),
    "one group below": (Aggregate(Join("inner", L, ONE_GROUP, None), ("l.a",), calls("count(*)", name="d")), ("l.a",)),
    "an unequal left join below": (Aggregate(UNEQUAL, ("l.a",), calls("count(*)")), ("l.a",)),
}


@pytest.mark.parametrize(("tree", "key"), REFUSED.values(), ids=REFUSED)
def test_aggregates_that_do_not_follow_from_state_are_not_kept_by_it(tree: Node, key: Key) -> None:
    assert plan_aggregate_state(tree, key, of(HEAP), types(tree)) is None


TYPES: dict[str, tuple[bool, str, dict[str, str]]] = {
    "whole numbers": (True, "sum(`h.b`)", {"h.b": "smallint"}),
    "decimals": (True, "sum(`h.b` * (1 - `h.c`))", {"h.b": "decimal(15,2)", "h.c": "decimal(15, 2)"}),
    "a type that nobody knows": (True, "sum(`h.b`)", {}),
    "an average of decimals": (True, "avg(`h.b`) filter (where `h.c` > 1)", {"h.b": "decimal(15,2)"}),
    "counted floats": (True, "count(`h.b`)", {"h.b": "double"}),
    "floats": (False, "sum(`h.b`)", {"h.b": "double"}),
    "floats among others": (False, "sum(`h.b` * (1 - `h.c`))", {"h.b": "decimal(15,2)", "h.c": "float"}),
    "texts": (False, "sum(`h.b`)", {"h.b": "string"}),
    "more digits than stand beside a zero": (False, "sum(`h.b`)", {"h.b": "decimal(38,36)"}),
    "an average of short decimals": (False, "avg(`h.b`)", {"h.b": "decimal(11,2)"}),
    "an average of long decimals": (False, "avg(`h.b`)", {"h.b": "decimal(24,2)"}),
    "an average of whole numbers": (False, "avg(`h.b`)", {"h.b": "bigint"}),
    "an average of a type that nobody knows": (False, "avg(`h.b`)", {}),
    "the least date": (True, "min(`h.b`)", {"h.b": "date"}),
    "the greatest moment": (True, "max(`h.b`) filter (where `h.c` > 1)", {"h.b": "timestamp"}),
    "the greatest decimal": (True, "max(`h.b`)", {"h.b": "decimal(38,37)"}),
    "the greatest product of decimals": (True, "max(`h.b` * (1 - `h.c`))", {"h.b": "decimal(15,2)", "h.c": "int"}),
    "the greatest product of floats": (False, "max(`h.b` * (1 - `h.c`))", {"h.b": "decimal(15,2)", "h.c": "float"}),
    "the least text": (True, "min(`h.b`)", {"h.b": "string"}),
    "whether any is true": (True, "max(`h.b`)", {"h.b": "boolean"}),
    "the greatest float": (False, "max(`h.b`)", {"h.b": "double"}),
    "the least of structs": (False, "min(`h.b`)", {"h.b": "struct<x:double>"}),
    "the least of a type that nobody knows": (False, "min(`h.b`)", {}),
    "the least of texts that are alike in other letters": (False, "min(`h.b`)", {"h.b": "string collate UTF8_LCASE"}),
    "groups of texts that are alike in other letters": (False, "count(*)", {"h.a": "string collate UTF8_LCASE"}),
}


@pytest.mark.parametrize(("is_kept", "call", "known"), TYPES.values(), ids=TYPES)
def test_only_exact_numbers_are_added_and_only_what_has_one_order_has_extremes(
    is_kept: bool, call: str, known: dict[str, str]
) -> None:
    assert (plan_aggregate_state(grouped(call), ("h.a",), of(HEAP), known) is not None) == is_kept


BELOW: dict[str, tuple[Key | None, str, dict[str, str]]] = {
    "a sum of decimals": (("c0",), "sum(`h.b` + 1)", {"h.b": "decimal(15,2)"}),
    "a sum of floats": (None, "sum(`h.b`)", {"h.b": "double"}),
    "a sum of a type that nobody knows": (("h.a",), "sum(`h.b`)", {}),
    "a sum of quotients": (("h.a",), "sum(`h.b` / 2)", {"h.b": "int"}),
    "the greatest date": (("c0",), "max(`h.b`)", {"h.b": "date"}),
    "the greatest float": (None, "max(`h.b`)", {"h.b": "double"}),
    "an average of decimals": (("c0",), "avg(`h.b`)", {"h.b": "decimal(15,2)"}),
    "an average of short decimals": (None, "avg(`h.b`)", {"h.b": "decimal(10,2)"}),
    "alike texts": (("h.a",), "count_if(collate(`h.b`, 'UTF8_LCASE') = 'a')", {"h.b": "string"}),
}


@pytest.mark.parametrize(("kept", "call", "known"), BELOW.values(), ids=BELOW)
def test_groups_of_groups_are_counted_where_these_are_the_same_in_any_order(
    kept: Key | None, call: str, known: dict[str, str]
) -> None:
    """Otherwise what the inner ones are made of is kept, as far as that is."""
    plan = plan_aggregate_state(
        Aggregate(grouped(call), ("c0",), calls("count(*)", name="d")), ("c0",), of(HEAP), known
    )
    assert (plan and plan.keys) == kept


def test_rows_without_groups_are_followed_by_their_changes() -> None:
    assert isinstance(plan_state(L, ("l.id",), ONE), Deltas)


def test_groups_without_sufficient_aggregate_state_are_recomputed() -> None:
    assert isinstance(plan_state(grouped("first(`h.b`)"), ("h.a",), HEAP), AffectedKeys)


def test_one_group_without_sufficient_aggregate_state_is_refused() -> None:
    with pytest.raises(NotMaintained) as refused:
        plan_state(Aggregate(H, (), calls("first(`h.b`)")), (), HEAP)
    assert refused.value.reason == "ONE_ROW"
