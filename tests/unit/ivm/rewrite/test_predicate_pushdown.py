"""Range filters: restrictions read their sources no further than known keys can be, and give the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

import duckdb
import pytest

from arctic_runtime.ivm.algebra.tree import Aggregate, Filter, Join, Scan, SemiJoin, SpoolScan, walk_tree
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.rewrite.predicate_pushdown import list_join_columns, narrow_sources
from arctic_runtime.ivm.rules.restrict import restrict_to_keys
from arctic_runtime.model.files.bounds import Bound, build_bounds_condition, is_bounded
from tests.unit.ivm import duck
from tests.unit.ivm.trees import HEAP, ONE, SEEDS, TWO, cases, given
from tests.unit.ivm.trees import condition as parsed

L, R = ONE.scan("l"), TWO.scan("r")
ASKED = "asked"
COUNT = (("n", parsed("count(*)")),)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck.connect() as connection:
        yield connection


def bounds(names: tuple[str, ...], values: Set[tuple[int | None, ...]], is_range: bool) -> Iterator[Bound]:
    """What a look at the given rows finds."""
    for name, held in zip(names, zip(*values, strict=True), strict=True):
        numbers = sorted({number for number in held if number is not None})
        ends = [*numbers[:1], *numbers[-1:]] if is_range else numbers
        yield Bound(name, "bigint", tuple(map(str, ends)), is_range, None in held)


@pytest.mark.parametrize("is_range", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_are_given_are_found_within_their_bounds(
    con: duckdb.DuckDBPyConnection, seed: int, is_range: bool
) -> None:
    for case in cases(con, seed):
        names = case.names()
        values = {tuple(case.random.choice((None, 0, 1, 2)) for _ in names) for _ in range(2)}
        given(con, ASKED, names, values)
        restricted = restrict_to_keys(case.tree, names, SpoolScan(ASKED, names))
        sources = narrow_sources(restricted, ASKED, [*bounds(names, values, is_range)])
        assert case.rows(sources) == case.rows(restricted), case.tree


def test_a_source_is_read_no_further_than_its_own_columns_are_given() -> None:
    groups = Aggregate(HEAP.scan("h"), ("h.a",), COUNT)
    tree = Join("inner", groups, ONE.scan("l"), parsed("`h.a` = `l.b`"))
    sources = narrow_sources(
        restrict_to_keys(tree, ("h.a",), SpoolScan(ASKED, ("h.a",))), ASKED, [Bound("h.a", "bigint", ("1", "9"), True)]
    )
    statistics = {
        scan.source: filtered.condition.sql("spark")
        for filtered in walk_tree(sources)
        if isinstance(filtered, Filter)
        for scan in (filtered.child,)
        if isinstance(scan, Scan)
    }
    between = "BETWEEN CAST('1' AS BIGINT) AND CAST('9' AS BIGINT)"
    assert statistics == {HEAP.name: f"`h.a` {between}", ONE.name: f"`l.b` {between}"}


def test_only_what_is_restricted_to_the_given_rows_is_narrowed() -> None:
    bound = Bound("k", "bigint", ("1",), False)
    for right in (SpoolScan("others", ("k",)), ONE.scan("k")):
        tree = SemiJoin(
            "semi", HEAP.scan("h"), right, parsed(f"`h.a` = `{'k' if isinstance(right, SpoolScan) else 'k.a'}`")
        )
        assert narrow_sources(tree, ASKED, [bound]) == tree
    without = SemiJoin("anti", HEAP.scan("h"), SpoolScan(ASKED, ("k",)), parsed("`h.a` = `k`"))
    assert narrow_sources(without, ASKED, [bound]) == without
    assert "IN (CAST('1' AS BIGINT))" in render_sql(narrow_sources(replace(without, kind="semi"), ASKED, [bound]))


def test_rows_find_their_partners_by_the_columns_that_a_join_equates() -> None:
    tree = Join("left", SemiJoin("anti", HEAP.scan("h"), L, parsed("`h.a` <=> `l.b`")), R, parsed("`h.b` = `r.id`"))
    assert list_join_columns(tree) == {"h.a", "l.b", "h.b", "r.id"}
    assert list_join_columns(Join("inner", L, R, parsed("`l.a` < `r.a`"))) == frozenset()


def test_values_are_literals_that_nothing_can_change() -> None:
    bounds = [
        Bound("it's", "string", ("a'b ${x}\n",), False),
        Bound("d", "date", ("-719162",), False),
        Bound("t", "timestamp", ("-1", "5"), True),
        Bound("c", "decimal(38,10)", ("-0.0000000001",), False, or_null=True),
        Bound("n", "int", (), True, or_null=True),
    ]
    assert build_bounds_condition(bounds, "t").sql("spark") == (
        "`t`.`it's` IN (CAST(X'61276220247b787d0a' AS STRING)) AND `t`.`d` IN (DATE_FROM_UNIX_DATE(-719162)) AND "
        "`t`.`t` BETWEEN TIMESTAMP_MICROS(-1) AND TIMESTAMP_MICROS(5) AND "
        "(`t`.`c` IN (CAST('-0.0000000001' AS DECIMAL(38, 10))) OR `t`.`c` IS NULL) AND `t`.`n` IS NULL"
    )
    assert build_bounds_condition([]).sql("spark") == "TRUE"


def test_types_without_an_order_that_is_the_same_everywhere_have_no_bounds() -> None:
    bounded = {"int", "bigint", "string", "date", "timestamp", "decimal(9,2)", "double", "string collate UTF8_LCASE"}
    assert {kind for kind in bounded if not is_bounded(kind)} == {"double", "string collate UTF8_LCASE"}
