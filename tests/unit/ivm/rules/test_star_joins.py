"""The rule of star joins, on random snowflakes whose tables change at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import (
    MULTIPLICITY,
    Filter,
    Join,
    Node,
    Projection,
    UnionAll,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.rewrite.statistics import SourceStatistics, Statistics
from arctic_runtime.ivm.rules.apply import derive_delta
from arctic_runtime.ivm.rules.star_joins import find_membership
from arctic_runtime.ivm.rules.terms import read_image, require_term
from arctic_runtime.model.names import TableName
from tests.unit.ivm import duck
from tests.unit.ivm.trees import SEEDS, Batch, Source, difference, load, netted, rows

FACTS = Source(TableName("lake", "raw", "facts"), ("id", "line", "a", "b", "n"), ("id", "line"))
ORDERS = Source(TableName("lake", "raw", "orders"), ("id", "c", "n"), ("id",))
ITEMS = Source(TableName("lake", "raw", "items"), ("x", "y", "n"), ("x", "y"))
CITIES = Source(TableName("lake", "raw", "cities"), ("id", "n"), ("id",))
SOURCES = (FACTS, ORDERS, ITEMS, CITIES)

VALUES = (None, 0, 1, 2)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


def condition(text: str) -> exp.Expr:
    return sqlglot.condition(text, dialect="spark")


F, O, I, C, D = FACTS.scan("f"), ORDERS.scan("o"), ITEMS.scan("i"), CITIES.scan("c"), CITIES.scan("d")  # noqa: E741
LINKS = {
    "o": condition("`f.id` = `o.id`"),
    "i": exp.and_(condition("`f.a` = `i.x`"), condition("`i.y` = `f.b`")),
    "c": condition("`o.c` = `c.id`"),
    "d": condition("`f.b` <=> `d.id`"),
}
"""Each dimension → how it is joined: an order has a city of its own, and its line another one."""


def snowflake(random: Random) -> Node:
    """A query of facts with dimensions in a random order and nesting, with filters and projections between them."""
    order = random.choice(("oicd", "ocid", "odic", "iocd", "dioc", "ocdi"))[: random.randint(2, 4)]
    tree: Node = trimmed(random, F, ("f.id", "f.a", "f.b", "f.n"))
    leaves = {"o": O, "i": I, "c": C, "d": D}
    for name in order:
        if name == "c" and "o" not in order[: order.index("c")]:
            continue
        leaf, on = trimmed(random, leaves[name], list_columns(leaves[name])), LINKS[name].copy()
        if random.random() < 0.3:
            on = exp.and_(on, condition(f"`{name}.n` <= `f.n`"))
        tree = Join("inner", tree, leaf, on) if random.random() < 0.7 else Join("inner", leaf, tree, on)
        if random.random() < 0.3:
            tree = Filter(tree, condition(f"`f.n` > 0 or `{name}.n` > 0"))
    return tree


def trimmed(random: Random, leaf: Node, names: Sequence[str]) -> Node:
    """A table with or without a filter, and with a projection that may drop its key."""
    last = names[-1]
    if random.random() < 0.4:
        leaf = Filter(leaf, condition(f"`{last}` >= 0"))
    if random.random() < 0.4:
        value = condition(f"`{last}` + 1") if random.random() < 0.5 else build_column(last)
        leaf = Projection(leaf, (*((name, build_column(name)) for name in names[:-1]), (last, value)))
    return leaf


def versions(random: Random, source: Source) -> tuple[list[Any], list[Any]]:
    """The rows of a table before and after a batch."""
    images = []
    before: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for _ in range(2):
        for _ in range(random.randint(0, 6)):
            key = tuple(random.randint(0, 2) for _ in source.key or ())
            rest = tuple(random.choice(VALUES) for _ in source.fields[len(key) :])
            before[key] = (*key, *rest)
        for key in [key for key in before if random.random() < 0.2]:
            del before[key]
        images.append(list(before.values()))
    return images[0], images[1]


def batch(random: Random) -> Batch:
    pairs = {source: versions(random, source) for source in SOURCES}
    return Batch(
        {source: old for source, (old, _) in pairs.items()}, {source: new for source, (_, new) in pairs.items()}
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_of_a_star_join_add_up_to_new_minus_old(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    random = Random(seed)
    stars = 0
    for _ in range(12):
        changes, tree = batch(random), snowflake(random)
        load(con, changes)
        if not changes.changed.intersection(scan.source for scan in list_scans(tree)):
            continue
        delta = require_term(derive_delta(tree, changes.changed))
        stars += is_star(delta)
        old = rows(con, read_image(tree, "old", changes.changed))
        assert netted(rows(con, delta)) == difference(rows(con, tree), old), tree
        assert list_columns(delta) == (*list_columns(tree), MULTIPLICITY)
    assert stars


def is_star(delta: Node) -> bool:
    """Whether a plan reads each table that has changed as one union of changed and unchanged rows."""
    return any("__arctic_sign_" in name for node in walk_tree(delta) for name in list_columns(node))


ALL = frozenset(source.name for source in SOURCES)
STAR = Join("inner", Join("inner", Join("inner", F, O, LINKS["o"]), I, LINKS["i"]), C, LINKS["c"])


def test_facts_are_read_once_and_their_partners_at_most_twice() -> None:
    read = Counter(f"{scan.source.name} {scan.image}" for scan in list_scans(require_term(derive_delta(STAR, ALL))))
    assert {name: times for name, times in read.items() if not name.endswith("delta")} == {
        "facts new": 1,
        "orders new": 2,
        "items new": 1,
        "cities new": 1,
    }


def test_few_changed_tables_and_tables_with_many_partners_have_a_term_each() -> None:
    def joins(tree: Node, *changed: Source) -> bool:
        return is_star(require_term(derive_delta(tree, frozenset(source.name for source in changed))))

    assert joins(STAR, *SOURCES)
    assert joins(STAR, FACTS, ORDERS, CITIES)
    assert not joins(STAR, FACTS, ORDERS)
    many = Join("inner", Join("inner", F, O, condition("`f.id` = `o.n`")), C, LINKS["c"])
    assert not joins(many, *SOURCES)


def test_rows_of_facts_are_estimated_by_the_changes_of_their_partners() -> None:
    statistics = Statistics(
        {
            FACTS.name: SourceStatistics(60_000_000, 1000, 8),
            ORDERS.name: SourceStatistics(15_000_000, 1000, 8),
            ITEMS.name: SourceStatistics(8_000_000, 1000, 8),
            CITIES.name: SourceStatistics(1000, 0, 8),
        }
    )
    delta = require_term(derive_delta(STAR, ALL))
    (facts,) = [node for node in walk_tree(delta) if isinstance(node, UnionAll) and "f.id" in list_columns(node)]
    assert 2000 < statistics.estimate_rows(facts) < 200_000
    assert any(find_membership(node) for node in walk_tree(facts))
