"""Plans over parts of their sources that have what is wanted of them and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from arctic_runtime.ivm.algebra.conditions import build_conjunction, build_equality
from arctic_runtime.ivm.algebra.tree import (
    Filter,
    Image,
    Join,
    Node,
    Scan,
    SemiJoin,
    SpoolScan,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.rewrite.semi_join_reducers import RowLookup, SemiJoinReducer, add_reducers
from arctic_runtime.ivm.rules.apply import derive_delta, derive_touched
from arctic_runtime.ivm.rules.inputs import Known
from arctic_runtime.ivm.rules.terms import require_term
from tests.unit.ivm import duck
from tests.unit.ivm.trees import HEAP, ONE, SEEDS, SOURCES, TWO, Bag, cases, condition, netted, rows, store

SOURCE = {source.name: source for source in SOURCES}

TO_ONE = Join("inner", TWO.scan("t"), ONE.scan("o"), condition("`t.a` = `o.id`"))
ALL = frozenset(SOURCE)
UNLIMITED = Known(most_scans=1000)
"""Random trees have larger plans than runs carry out."""


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


def over_least_parts(con: duckdb.DuckDBPyConnection, tree: Node) -> Node:
    """The tree over its parts, which are loaded."""
    (reducer,), parts = add_reducers((tree,), [source.name for source in SOURCES])
    for part in parts:
        for image, name in part.images.items():
            store(con, name, SOURCE[part.source].fields, _least(con, part, image))
    return reducer


def _least(con: duckdb.DuckDBPyConnection, part: SemiJoinReducer, image: Image) -> Bag:
    source = SOURCE[part.source]
    whole = Scan(source.name, tuple((name, name) for name in source.fields), source.key, image)
    needed = whole if part.condition is None else Filter(whole, part.condition)
    matches = {row for one in part.lookups for row in rows(con, _matching_rows(needed, one))}
    return Counter({row: copies for row, copies in rows(con, whole).items() if row in matches})


def _matching_rows(whole: Scan, one: RowLookup) -> Node:
    pairs = zip(one.fields, list_columns(one.values), strict=True)
    return SemiJoin(
        "semi", whole, one.values, build_conjunction(build_equality(*pair, one.null_safe) for pair in pairs)
    )


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_parts_are_enough_for_what_came_and_went(con: duckdb.DuckDBPyConnection, seed: int, linear: bool) -> None:
    for case in cases(con, seed, linear):
        if case.changed:
            parts = over_least_parts(con, require_term(derive_delta(case.tree, case.changed, known=UNLIMITED)))
            assert netted(case.rows(parts)) == case.difference, case.tree


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_are_enough_for_what_is_touched(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    for case in cases(con, seed):
        if case.changed:
            names = case.names()
            tree = require_term(derive_touched(case.tree, names, case.changed))
            assert set(case.rows(over_least_parts(con, tree))) == set(case.rows(tree)), case.tree


def read(tree: Node) -> list[str]:
    """The images and the parts that a tree reads, in order."""
    scans = (node for node in walk_tree(tree) if isinstance(node, Scan | SpoolScan))
    return [node.name if isinstance(node, SpoolScan) else f"{node.source.name} {node.image}" for node in scans]


def test_a_source_is_wanted_for_the_partners_of_each_other_one_that_changed() -> None:
    tree = Join("inner", TO_ONE, HEAP.scan("h"), condition("`t.b` = `h.a`"))
    (reducer,), (part,) = add_reducers((require_term(derive_delta(tree, ALL)),), (TWO.name,))
    assert {(one.fields, *read(one.values)) for one in part.lookups} == {(("a",), "one delta"), (("b",), "heap delta")}
    assert [scan.image for scan in list_scans(reducer) if scan.source == TWO.name] == ["delta"]
    assert part.changes is None
    assert part.full_scan.fields == (("id", "id"), ("a", "a"), ("b", "b"))


def test_a_lookup_by_key_takes_its_values_without_their_join_partners() -> None:
    tree = Join(
        "inner", Join("inner", HEAP.scan("h"), TWO.scan("t"), condition("`h.b` = `t.b`")), ONE.scan("o"), ON_KEY
    )
    _, parts = add_reducers((require_term(derive_delta(tree, ALL)),), (HEAP.name, ONE.name))
    assert [part.source.name for part in parts] == ["heap", "one"]
    assert {tuple(read(one.values)) for one in parts[1].lookups} == {("heap delta", parts[0].images["new"])}


ON_KEY = condition("`h.a` = `o.id`")


def test_rows_that_are_always_read_are_not_split() -> None:
    tree = Join("inner", TO_ONE, HEAP.scan("h"), condition("`t.b` < `h.a`"))
    plan = require_term(derive_delta(tree, ALL))
    assert add_reducers((plan,), (HEAP.name,)) == ((plan,), ())


@pytest.mark.parametrize(
    ("own", "others", "common"),
    [
        ("`t.b` > 1", "`u.b` > 1", "`b` > 1"),
        ("`t.b` > 1 and `t.id` = 2", "`u.id` = 2 and `u.a` = 1", "`id` = 2"),
        ("`t.b` > 1", "`u.b` > 2", None),
        ("`t.b` > 1", "true", None),
        ("`t.b` like 'a%' and `t.a` = 1", "`u.b` like 'a%' and `u.a` = 1", "`a` = 1"),
        (
            "`t.b` between 1 and cast('2' as int)",
            "`u.b` between 1 and cast('2' as int)",
            "`b` BETWEEN 1 AND CAST('2' AS INT)",
        ),
        ("cast(length(`t.b`) as int) > 1", "cast(length(`u.b`) as int) > 1", None),
    ],
)
def test_of_a_part_no_rows_are_needed_that_no_reading_lets_through(own: str, others: str, common: str | None) -> None:
    one, other = Filter(TWO.scan("t"), condition(own)), Filter(TWO.scan("u"), condition(others))
    first = Join("inner", one, ONE.scan("o"), condition("`t.a` = `o.id`"))
    tree = Join("inner", first, other, condition("`o.id` = `u.a`"))
    _, (part,) = add_reducers((require_term(derive_delta(tree, frozenset({ONE.name}))),), (TWO.name,))
    assert (None if part.condition is None else part.condition.sql(dialect="spark")) == common
