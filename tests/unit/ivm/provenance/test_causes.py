"""Causes of changes of a row, for random trees: taken back, they give the row as it was before."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import Any

import duckdb
import pytest

from arctic_runtime.ivm.algebra.tree import Filter, Node, list_columns, list_scans
from arctic_runtime.ivm.provenance.causes import Causes, Limits, find_causes
from arctic_runtime.ivm.provenance.source_rows import Unit
from arctic_runtime.ivm.rules.terms import read_image
from tests.unit.ivm import trees
from tests.unit.ivm.duck import connect
from tests.unit.ivm.provenance.duck_engine import DuckEngine, build_key_condition
from tests.unit.ivm.trees import SOURCES, Batch, Source, Trees, random_batch

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 60))]
LIMITS = Limits(units=50, batch=8)
BY_NAME = {source.name: source for source in SOURCES}
TREES = 6
CHANGED = 5
"""Rows that change, for each seed."""


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    return connect()


def get_rows(con: duckdb.DuckDBPyConnection, batch: Batch, tree: Node, names: Any, key: Any) -> list[Any]:
    """The rows of a tree with a key, over the new rows of a batch."""
    trees.load(con, batch)
    node = Filter(tree, build_key_condition(names, key))
    return sorted(trees.rows(con, node).elements(), key=repr)


def list_all_units(batch: Batch) -> list[tuple[Source, Any]]:
    """Every key that changed in a batch, and every changed row of a source without a key."""
    units: list[tuple[Source, Any]] = []
    for source in SOURCES:
        old, new = Counter(batch.old[source]), Counter(batch.new[source])
        changed = [*(old - new), *(new - old)]
        units += [(source, one) for one in dict.fromkeys(get_identity(source, row) for row in changed)]
    return units


def get_identity(source: Source, row: Any) -> Any:
    return row if source.key is None else tuple(row[source.fields.index(part)] for part in source.key)


def take_back(batch: Batch, units: list[tuple[Source, Any]]) -> Batch:
    """The batch with new rows as they were before in the units."""
    new = {}
    for source in SOURCES:
        back = {identity for unit_source, identity in units if unit_source is source}
        kept = [row for row in batch.new[source] if get_identity(source, row) not in back]
        new[source] = kept + [row for row in batch.old[source] if get_identity(source, row) in back]
    return Batch(batch.old, new)


def list_matching(units: tuple[Unit, ...], tree: Node, batch: Batch) -> list[tuple[Source, Any]]:
    """The changes of whole rows that units name; those of sources without a key by the columns that the tree reads."""
    named = {(unit.source, unit.key) for unit in units}
    return [
        (source, identity)
        for source, identity in list_all_units(batch)
        if (source.name, read_identity(tree, source, identity)) in named
    ]


def read_identity(tree: Node, source: Source, identity: Any) -> Any:
    if source.key is not None:
        return identity
    scans = (scan for scan in list_scans(tree) if scan.source == source.name)
    fields = dict.fromkeys(field for scan in scans for _, field in scan.fields)
    return tuple(dict(zip(source.fields, identity, strict=True))[field] for field in fields)


def find(con: duckdb.DuckDBPyConnection, batch: Batch, tree: Node, names: Any, key: Any) -> Causes:
    trees.load(con, batch)
    return find_causes(DuckEngine(con, dict(BY_NAME)), tree, names, key, LIMITS)


def pick_keys(con: duckdb.DuckDBPyConnection, batch: Batch, tree: Node, names: Any, random: Random) -> list[Any]:
    """Keys of rows before or after, and one that may not be there."""
    trees.load(con, batch)
    changed = frozenset(source.name for source in SOURCES)
    bags = (trees.rows(con, read_image(tree, "old", changed)), trees.rows(con, tree))
    keys = sorted({key for bag in bags for key in trees.picked(bag, tree, names)}, key=repr)
    return [*random.sample(keys, min(3, len(keys))), tuple(random.choice((0, 1, 7)) for _ in names)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_row_is_as_before_without_its_causes(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    random = Random(seed)
    for number in range(TREES):
        batch, made = random_batch(random), Trees(random)
        tree = made.tree(random.choice((1, 2, 3)))
        names = made.some(list_columns(tree), 1, 2)
        for key in pick_keys(con, batch, tree, names, random):
            causes = find(con, batch, tree, names, key)
            where = f"seed {seed}, tree {number}, key {key}: {tree}"
            unchanged = Batch(batch.old, dict(batch.old))
            assert list(causes.before) == get_rows(con, unchanged, tree, names, key), where
            assert list(causes.after) == get_rows(con, batch, tree, names, key), where
            back = take_back(batch, list_matching(causes.units, tree, batch))
            assert get_rows(con, back, tree, names, key) == list(causes.before), where


@pytest.mark.parametrize("seed", SEEDS)
def test_a_single_change_is_the_only_cause(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    random = Random(1_000 + seed)
    changed = 0
    for number in count():
        if changed >= CHANGED:
            break
        whole, made = random_batch(random), Trees(random)
        units = list_all_units(whole)
        if not units:
            continue
        source, identity = random.choice(units)
        batch = take_back(whole, [unit for unit in units if unit != (source, identity)])
        tree = made.tree(random.choice((1, 2, 3)))
        names = made.some(list_columns(tree), 1, 2)
        for key in pick_keys(con, batch, tree, names, random):
            causes = find(con, batch, tree, names, key)
            where = f"seed {seed}, tree {number}, key {key}: {tree}"
            expected = [(source, identity)] if causes.before != causes.after else []
            assert list_matching(causes.units, tree, batch) == expected, where
            changed += bool(expected)
