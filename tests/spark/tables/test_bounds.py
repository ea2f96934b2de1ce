"""Conditions that let scans leave out files: they hold for all that is looked for, and for little else."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.ivm.algebra.tree import Filter, walk_tree
from arctic_runtime.spark.refresh import increments
from arctic_runtime.spark.tables import append as appending
from arctic_runtime.spark.tables import merge as merging
from arctic_runtime.spark.tables.delete import TARGET
from arctic_runtime.spark.tables.rows import bounds
from arctic_runtime.thresholds import PruningThresholds
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = datetime.timezone.utc
VALUES: dict[str, tuple[Any, ...]] = {
    "tinyint": (-128, 0, 127),
    "bigint": (-(2**63), 0, 2**63 - 1),
    "decimal(38,10)": (Decimal("-1234567890123456789.0123456789"), Decimal(0), Decimal("0.0000000001")),
    "string": ("", "it's ${x} \\ \n`", "\U0001f600"),
    "date": (datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)),
    # In Berlin the clock shows 02:30 twice on that day.
    "timestamp": (
        datetime.datetime(1900, 1, 1, 0, 0, 0, 1, UTC),
        datetime.datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
        datetime.datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    ),
}
PRUNING = PruningThresholds()
LARGE = PRUNING.scanned_table_rows * 10


@pytest.fixture(params=["list", pytest.param("range", marks=pytest.mark.slow)])
def few(request: pytest.FixtureRequest) -> int:
    """A number of rows for which values are listed, or their ends are told."""
    return PRUNING.in_list_values + (request.param != "list")


def _near(rows: DataFrame, count: int) -> Any:
    return bounds.write_nearby_condition(bounds.compute_pruning_bounds(rows, count, LARGE, PRUNING))


@pytest.fixture
def in_berlin(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.in_turn
@pytest.mark.usefixtures("in_berlin")
def test_every_value_is_where_its_bounds_say(lake: Warehouse, few: int) -> None:
    spark = lake.spark
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(VALUES))
    rows = spark.createDataFrame([*zip(*VALUES.values(), strict=True)], columns).coalesce(1)
    ranges = bounds.collect_bounds(rows, few, PRUNING)
    assert ranges is not None
    assert len(ranges) == len(VALUES)
    assert rows.where(_near(rows, few)).count() == 3
    middle = spark.createDataFrame([tuple(held[1] for held in VALUES.values())], columns)
    assert rows.where(_near(middle, few)).count() == 1
    for bound in ranges:
        assert rows.where(_near(middle.select(bound.column), few)).count() == 1, bound


def test_what_tells_nothing_bounds_nothing(spark: SparkSession, few: int) -> None:
    rows = spark.sql("select * from values (1, cast(null as int), 0.0D), (2, 5, -0.0D) as t(a, b, c)")
    ranges = bounds.collect_bounds(rows, few, PRUNING)
    assert ranges is not None
    assert [(bound.column, bound.or_null) for bound in ranges] == [("a", False), ("b", True)]
    assert _near(rows.select("b", "c"), few) == bounds.EVERYWHERE
    assert _near(rows.where("a > 2"), few) == bounds.NOWHERE
    assert bounds.compute_pruning_bounds(rows, few, PRUNING.scanned_table_rows, PRUNING) == ()
    assert _near(rows, 0) == bounds.NOWHERE


def test_a_table_is_read_as_a_whole_where_much_of_it_is_looked_for_unless_its_place_is_known(
    spark: SparkSession,
) -> None:
    rows = spark.sql("select * from values (1), (2) as t(a)")
    many = PRUNING.scanned_table_rows
    most = PRUNING.scanned_table_ratio * many
    known = bounds.collect_bounds(rows, many, PRUNING)
    assert bounds.compute_pruning_bounds(rows, many, most, PRUNING) == ()
    near = bounds.compute_pruning_bounds(rows, many, most + 1, PRUNING)
    assert rows.union(spark.sql("select 3")).where(bounds.write_nearby_condition(near)).count() == 2
    assert bounds.compute_pruning_bounds(rows, many, most, PRUNING, known=known) == near


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "written", ["range", *(pytest.param(way, marks=pytest.mark.slow) for way in ("known", "list"))]
)
def test_a_large_base_is_asked_only_where_its_changes_can_be(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    listed = 100 if written == "list" else 0
    lake = lake.under(pruning={"scanned_table_rows": 0, "in_list_values": listed, "bucket_pruning_keys": 0})
    if written == "range":
        monkeypatch.setattr(appending, "is_scanned", lambda *_: True)
    seen: list[str] = []

    def spy(*arguments: Any) -> Any:
        is_asked = arguments[1] > 0 and arguments[4] is None
        assert is_asked == (arguments[1] > 0 and written == "range")
        near = bounds.compute_pruning_bounds(*arguments)
        seen.append(bounds.write_nearby_condition(near, TARGET))
        return near

    monkeypatch.setattr(merging, "compute_pruning_bounds", spy)
    query = "select id, day, v from {s}"
    model = lake.model("m", query, primary_key=["id"], partition_by=["day"], nodes=2)
    columns = "id bigint, day date, v string"
    days = [datetime.date(2024, 1, 1 + n) for n in range(4)]
    rows = {n: (n, days[n % 4], "a") for n in range(40)}
    batches: list[tuple[dict[int, tuple[Any, ...] | None], int]] = [
        ({}, -1),
        ({3: (3, days[3], "b"), 7: None, 100: (100, days[0], "c")}, 10),
        ({11: (11, days[0], "moved"), 15: (15, None, "nowhere")}, 10),
        ({15: (15, days[1], "back")}, 40),
        ({200: (200, days[3], "new")}, 0),
    ]
    for batch, most in batches:
        changed = {**rows, **batch}
        rows = {n: row for n, row in changed.items() if row is not None}
        before = lake.spark.table(lake.sql_name("m")) if most >= 0 else None
        held = before.collect() if before is not None else []
        lake.load("s", rows.values(), columns)
        lake.run(model)
        assert lake.rows(model) == sorted(map(tuple, rows.values()), key=repr)
        if most >= 0:
            old = lake.spark.createDataFrame(held, columns).alias("__arctic_t")
            assert old.where(seen[-1]).count() <= most, seen[-1]
    assert lake.broken(model) == []


@pytest.mark.slow
@pytest.mark.parametrize("written", ["list", pytest.param("range", marks=pytest.mark.slow)])
def test_groups_that_changed_are_computed_again_from_where_they_are(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    listed = 100 if written == "list" else 0
    lake = lake.under(incremental={"large_source_rows": 0}, pruning={"in_list_values": listed})
    trees: list[Any] = []

    def spy(spark: Any, new: Any, *rest: Any) -> Any:
        trees.append(new)
        return recomputed(spark, new, *rest)

    recomputed = increments.recompute_affected_rows
    monkeypatch.setattr(increments, "recompute_affected_rows", spy)
    columns = "id bigint, day date, v double"
    rows = {n: (n, datetime.date(2024, 1, 1 + n % 20), n / 4) for n in range(60)}
    lake.load("s", rows.values(), columns)
    facts = lake.model("facts", "select * from {s}", primary_key="id", partition_by=["day"], nodes=1)
    days = lake.model("days", "select day, sum(v) as v, count(*) as n from {facts} group by day", primary_key="day")
    for model in (facts, days):
        lake.run(model)
    rows |= {5: (5, rows[5][1], 99.0), 100: (100, rows[7][1], 1.0), 101: (101, datetime.date(2025, 1, 1), 2.0)}
    del rows[8]
    lake.load("s", rows.values(), columns)
    outcomes = [lake.run(model) for model in (facts, days)]
    assert [outcome.mode for outcome in outcomes] == ["incremental", "incremental"]
    assert lake.actions(outcomes[-1]) == (1, 3, 0)
    assert lake.broken(days) == []
    assert any(isinstance(node, Filter) for node in walk_tree(trees[-1]))


@pytest.mark.in_turn
@pytest.mark.parametrize("is_held", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["held", "read twice"])
def test_partners_of_changed_rows_are_looked_for_where_they_can_be(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_held: bool
) -> None:
    most = 0 if is_held else 100
    lake = lake.under(
        pruning={"scanned_table_rows": 0}, incremental={"cached_change_rows": most, "paired_table_rows": 0}
    )
    lines, orders = "id bigint, nr bigint, v string", "nr bigint, customer string"
    lake.load("l", [(n, n % 50, "a") for n in range(100)], lines)
    lake.load("o", [(n, f"c{n}") for n in range(50)], orders)
    models = [
        lake.model(name, f"select * from {{{name[0]}}}", primary_key=key)
        for name, key in (("lines", "id"), ("orders", "nr"))
    ]
    joined = lake.model("m", "select * from {lines} left join {orders} using (nr)", primary_key="id", refresh="strict")
    for model in (*models, joined):
        lake.run(model)
    lake.load("l", [(n, 7 if n == 3 else n % 50, "b" if n == 4 else "a") for n in range(100)], lines)
    lake.run(models[0])
    moved = increments.compute_deltas

    def spy(*arguments: Any) -> Any:
        moved(*arguments).explain()
        return moved(*arguments)

    monkeypatch.setattr(increments, "compute_deltas", spy)
    assert lake.actions(lake.run(joined)) == (0, 2, 0)
    assert lake.broken(joined) == []
    plan = capsys.readouterr().out
    scan = next(line for line in plan.splitlines() if ".orders" in line and "Scan" in line)
    assert "nr IN (" in scan, scan
    assert ("InMemoryTableScan" in plan) == is_held
