"""What the rules promise, on random trees over random batches; the seed is the test's parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, SpoolScan, list_columns
from arctic_runtime.ivm.algebra.unique import find_unique_keys, is_unique
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from arctic_runtime.ivm.rules.apply import derive_delta, derive_either, derive_touched
from arctic_runtime.ivm.rules.inputs import Known
from arctic_runtime.ivm.rules.restrict import restrict_to_keys
from arctic_runtime.ivm.rules.runtime_filters import add_runtime_filters
from tests.unit.ivm import duck
from tests.unit.ivm.trees import SEEDS, SOURCES, cases, given, netted, picked, types

NO_OVERFLOW = "decimal(9,0)"
"""A type of numbers that can be added up, so that what is computed of them cannot fail."""

ALL_WORTH = {source.name: frozenset(other.name for other in SOURCES) for source in SOURCES}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_of_a_delta_add_up_to_new_minus_old(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    for case in cases(con, seed):
        delta = derive_delta(case.tree, case.changed, known=Known(dict.fromkeys(types(case.tree), NO_OVERFLOW)))
        assert (delta is None) == (not case.changed)
        assert netted(case.rows(delta) if delta else Counter()) == case.difference, case.tree
        assert delta is None or list_columns(delta) == (*list_columns(case.tree), MULTIPLICITY)


@pytest.mark.parametrize("seed", SEEDS)
def test_touched_has_the_values_of_all_rows_that_came_or_went(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    for case in cases(con, seed):
        names = case.names()
        touched_keys = derive_touched(case.tree, names, case.changed)
        assert (touched_keys is None) == (not case.changed)
        assert set(case.rows(touched_keys) if touched_keys else ()) >= picked(case.difference, case.tree, names), (
            case.tree
        )
        assert touched_keys is None or list_columns(touched_keys) == names


@pytest.mark.parametrize("seed", SEEDS)
def test_touched_has_them_too_without_what_no_partner_has(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    for case in cases(con, seed):
        names = case.names()
        tree = add_runtime_filters(push_down_filters(case.tree), ALL_WORTH)
        assert case.rows(tree) == case.new, case.tree
        touched_keys = derive_touched(tree, names, case.changed, ALL_WORTH)
        assert set(case.rows(touched_keys) if touched_keys else ()) >= picked(case.difference, case.tree, names), (
            case.tree
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_either_has_the_values_of_old_and_new_rows(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    for case in cases(con, seed):
        names = case.names()
        either = derive_either(case.tree, names, case.changed)
        assert set(case.rows(either)) >= picked(case.new + case.old, case.tree, names), case.tree
        assert list_columns(either) == names


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restriction_is_the_semi_join_with_what_is_given(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    for case in cases(con, seed):
        names = case.names()
        values = {tuple(case.random.choice((None, 0, 1, 2)) for _ in names) for _ in range(2)}
        given(con, "asked", names, values)
        keys = restrict_to_keys(case.tree, names, SpoolScan("asked", names))
        kept = {row: copies for row, copies in case.new.items() if picked([row], case.tree, names) <= values}
        assert case.rows(keys) == kept, case.tree
        assert list_columns(keys) == list_columns(case.tree)


@pytest.mark.parametrize("seed", SEEDS)
def test_conditions_pushed_down_keep_the_same_rows(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    for case in cases(con, seed):
        filters = push_down_filters(case.tree)
        assert case.rows(filters) == case.new, case.tree
        assert list_columns(filters) == list_columns(case.tree)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_called_unique_has_no_copies(con: duckdb.DuckDBPyConnection, seed: int, linear: bool) -> None:
    for case in cases(con, seed, linear):
        names = case.names()
        claimed = [*map(tuple, find_unique_keys(case.tree)), *([names] if is_unique(case.tree, names) else [])]
        for key in claimed:
            assert len(picked(case.new, case.tree, key)) == sum(case.new.values()), (key, case.tree)
