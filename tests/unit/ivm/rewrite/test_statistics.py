"""About how many rows the parts of a plan have, and which of them are sent to all tasks."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Image,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    Side,
    SpoolScan,
    UnionAll,
    list_columns,
)
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.rewrite.semi_join_reducers import RowLookup, SemiJoinReducer
from arctic_runtime.ivm.rewrite.statistics import SourceStatistics, Statistics
from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import SHIPPED
from tests.unit.ivm.trees import condition

JOINS = SHIPPED.joins

ORDERS, LINES, NOTES = (TableName("lake", "raw", name) for name in ("orders", "lines", "notes"))
STATISTICS = Statistics(
    {
        ORDERS: SourceStatistics(15_000_000, 1_000, 8),
        LINES: SourceStatistics(60_000_000, 5_000, 8),
        NOTES: SourceStatistics(9_000_000, 100, 8),
    }
)


def orders(image: Image = "new", alias: str = "o") -> Scan:
    return Scan(ORDERS, ((f"{alias}.id", "id"), (f"{alias}.on", "on")), (f"{alias}.id",), image)


def lines(image: Image = "new") -> Scan:
    return Scan(LINES, (("l.order", "order"), ("l.line", "line"), ("l.price", "price")), ("l.order", "l.line"), image)


NOTE = Scan(NOTES, (("n.order", "order"), ("n.text", "text")))
COMPUTED = Projection(lines(), (("x", condition("`l.order` + 1")),))
OF_ORDER = condition("`l.order` = `o.id`")
TWO_KEYS = SpoolScan("keys", ("k",))


def joined(left: Node, right: Node, kind: str = "inner") -> Join | SemiJoin:
    if kind in ("semi", "anti"):
        return SemiJoin(kind, left, right, OF_ORDER)  # type: ignore[arg-type]
    return Join(kind, left, right, OF_ORDER)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tree", "rows"),
    [
        (orders(), 15_000_000),
        (orders("pair"), 1_000),
        (orders("delta"), 2_000),
        (orders("either"), 15_002_000),
        (OneRow(), 1),
        (Aggregate(lines(), (), ()), 1),
        (Aggregate(lines("pair"), ("l.line",), ()), 5_000),
        (Filter(Distinct(Projection(lines("pair"), (("x", condition("`l.price` + 1")),))), condition("x > 1")), 5_000),
        (Explode(orders("pair"), condition("explode(array(1, 2))"), ("e",), False), inf),
        (UnionAll((orders("pair"), orders("delta")), ("a", "b")), 3_000),
        (SetOperation("except", False, orders("pair"), orders(), ("a", "b")), 1_000),
        (SetOperation("intersect", False, orders(), orders("delta"), ("a", "b")), 2_000),
        (TWO_KEYS, 2),
        (SpoolScan("unheard of", ("k",)), inf),
        (NOTE, 9_000_000),
        (replace(NOTE, source=TableName("lake", "raw", "unheard_of")), inf),
    ],
)
def test_rows_follow_from_those_of_the_sources(tree: Node, rows: float) -> None:
    assert STATISTICS.with_spool("keys", 2).estimate_rows(tree) == rows


@pytest.mark.parametrize(
    ("tree", "rows"),
    [
        (joined(lines("pair"), orders()), 5_000),
        (joined(lines(), orders("pair")), 4_000),
        (joined(lines("pair"), orders("pair")), 4_000),
        (joined(lines("pair"), orders(), "left"), 5_000),
        (joined(lines(), orders("pair"), "left"), 60_000_000),
        (joined(lines("pair"), orders(), "full"), inf),
        (joined(lines(), orders("pair"), "semi"), 4_000),
        (joined(lines("pair"), orders(), "semi"), 5_000),
        (joined(lines(), orders("pair"), "anti"), 60_000_000),
        (Join("inner", orders("pair"), NOTE, condition("`o.id` = `n.order`")), 1_000),
        (Join("inner", orders("pair"), NOTE, condition("`o.on` = `n.order`")), inf),
        (Join("inner", orders("pair"), lines(), None), inf),
        (Join("inner", orders("pair"), COMPUTED, condition("`o.id` = x")), 4_000),
    ],
)
def test_a_row_has_as_many_partners_as_the_rows_of_a_keyed_source_have_on_average(tree: Node, rows: float) -> None:
    """Of columns that are nobody's key nothing is known; what is computed may be compared to a key."""
    assert STATISTICS.estimate_rows(tree) == rows


def test_partners_are_counted_through_other_joins() -> None:
    """The rows of each line are those of its order, however few of them are read."""
    some = SemiJoin(
        "semi", lines(), Projection(orders("pair", "p"), (("k", condition("`p.id`")),)), condition("`l.order` = k")
    )
    assert STATISTICS.estimate_rows(some) == 4_000
    assert STATISTICS.estimate_rows(joined(some, orders("pair"))) == 4_000
    lined = Join("inner", orders("new", "p"), some, condition("`p.id` = `l.order`"))
    assert STATISTICS.estimate_rows(lined) == 4_000


@pytest.mark.parametrize(
    ("tree", "broadcast"),
    [
        (joined(lines("pair"), orders()), "left"),
        (joined(lines(), orders("pair")), "right"),
        (joined(lines(), orders("pair"), "left"), "right"),
        (joined(lines(), orders("pair"), "semi"), "right"),
        (joined(lines(), orders("pair"), "anti"), "right"),
        (joined(lines("pair"), orders(), "left"), None),
        (joined(lines("pair"), orders(), "semi"), None),
        (joined(lines("pair"), orders("pair"), "full"), None),
        (joined(lines("pair"), orders("pair")), None),
        (joined(lines(), orders()), None),
        (Join("inner", lines(), orders("pair"), None), None),
    ],
)
def test_the_side_with_few_rows_is_sent_where_an_engine_can_and_the_other_is_large(
    tree: Node, broadcast: Side | None
) -> None:
    hinted = STATISTICS.with_join_hints(tree)
    assert isinstance(hinted, Join | SemiJoin)
    assert hinted.broadcast == broadcast
    assert replace(hinted, broadcast=None) == tree
    assert list_columns(hinted) == list_columns(tree)


@pytest.mark.parametrize(
    ("rows", "others", "value_bytes", "is_broadcast"),
    [
        (JOINS.broadcast_rows, JOINS.shuffled_rows + 1, 0, True),
        (JOINS.broadcast_rows + 1, JOINS.broadcast_rows + 2, 0, False),
        (10, JOINS.shuffled_rows, 0, False),
        (
            JOINS.broadcast_rows / 2,
            JOINS.shuffled_rows + 1,
            JOINS.broadcast_bytes / JOINS.broadcast_rows,
            True,
        ),
        (
            JOINS.broadcast_rows / 2 + 1,
            JOINS.shuffled_rows + 1,
            JOINS.broadcast_bytes / JOINS.broadcast_rows,
            False,
        ),
    ],
)
def test_what_is_sent_has_neither_many_rows_nor_many_bytes(
    rows: float, others: int, value_bytes: float, is_broadcast: bool
) -> None:
    statistics = Statistics(
        {ORDERS: SourceStatistics(int(rows), 0, value_bytes), LINES: SourceStatistics(others, 0, value_bytes)}
    )
    hinted = statistics.with_join_hints(joined(lines(), orders()))
    assert isinstance(hinted, Join)
    assert (hinted.broadcast is not None) == is_broadcast


def test_joins_below_get_hints_too_and_the_rendered_query_runs() -> None:
    tree = Join("inner", orders("pair", "p"), joined(lines("pair"), orders()), condition("`p.id` = `o.id`"))
    hinted = render_sql(STATISTICS.with_join_hints(Distinct(tree)))
    assert hinted.count("/*+ BROADCAST(l) */") == 1
    assert render_sql(tree).count("BROADCAST") == 0


def test_a_part_has_as_many_rows_as_are_found_by_all_that_is_wanted() -> None:
    keys = Projection(orders("pair"), (("k", condition("`o.id`")),))
    part = SemiJoinReducer(LINES, "part", (RowLookup(("order",), keys, False),) * 2, (lines(),))
    known = STATISTICS.with_reducer(part)
    spool = SpoolScan(part.images["new"], ("order", "line", "price"))
    assert known.estimate_rows(spool) == 8_000
    assert known.estimate_rows(Join("inner", spool, orders(), condition("`order` = `o.id`"))) == 8_000
    hinted = known.with_join_hints(Join("inner", spool, orders(), condition("`order` = `o.id`")))
    assert isinstance(hinted, Join)
    assert hinted.broadcast == "left"
