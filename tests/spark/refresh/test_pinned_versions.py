"""What the models of one invocation read of an upstream that moves on meanwhile."""

from __future__ import annotations

import pytest

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.model.table import Model
from arctic_runtime.refresh_planner import Outcome, RefreshPlanner
from arctic_runtime.spark.refresh.run import Refresh
from tests.spark.warehouse import Warehouse

LANDED = "id int, city string"
GROUPED = "select city, count(*) as n from {{{0}}} group by city"


def run(lake: Warehouse, model: Model, pins: PinnedSnapshots) -> Outcome:
    return Refresh(RefreshPlanner(model, lake.reader, pins=pins), lambda: lake.spark).run_refresh()


@pytest.fixture
def diamond(lake: Warehouse) -> tuple[Model, Model, Model]:
    """Two models over one landing table, and one that compares them; all built."""
    lake.append("landed", [(1, "a"), (2, "b")], LANDED)
    left = lake.model("lefts", GROUPED.format("landed"), primary_key="city")
    right = lake.model("rights", GROUPED.format("landed"), primary_key="city")
    both = lake.model(
        "both", "select l.city, l.n as lefts, r.n as rights from {lefts} l full join {rights} r using (city)",
        primary_key="city",
    )  # fmt: skip
    for model in (left, right, both):
        lake.run(model)
    return left, right, both


@pytest.mark.in_turn
def test_models_over_one_upstream_agree_although_it_moves_on_between_them(
    lake: Warehouse, diamond: tuple[Model, Model, Model]
) -> None:
    left, right, both = diamond
    lake.append("landed", [(3, "a")], LANDED)
    pins = PinnedSnapshots()
    first = run(lake, left, pins)
    lake.append("landed", [(4, "a"), (5, "b")], LANDED)
    second = run(lake, right, pins)
    run(lake, both, pins)
    assert first.consumed == second.consumed
    assert lake.rows(both) == [("a", 2, 2), ("b", 1, 1)]
    later = PinnedSnapshots()
    for model in diamond:
        run(lake, model, later)
    assert lake.rows(both) == [("a", 3, 3), ("b", 2, 2)]
    assert lake.broken(both) == []


@pytest.mark.in_turn
def test_a_table_is_read_as_its_own_run_made_it(lake: Warehouse, diamond: tuple[Model, Model, Model]) -> None:
    left, right, both = diamond
    pins = PinnedSnapshots()
    run(lake, both, pins)
    lake.append("landed", [(3, "c")], LANDED)
    for model in (left, right, both):
        run(lake, model, pins)
    assert lake.rows(both) == [("a", 1, 1), ("b", 1, 1), ("c", 1, 1)]


@pytest.mark.slow
def test_what_was_read_by_another_invocation_is_not_read_as_of_an_older_pin(
    lake: Warehouse, diamond: tuple[Model, Model, Model]
) -> None:
    left, right, _ = diamond
    pins = PinnedSnapshots()
    run(lake, left, pins)
    lake.append("landed", [(3, "a")], LANDED)
    lake.run(right)
    assert run(lake, right, pins).mode == "unchanged"
    assert lake.rows(right) == [("a", 2), ("b", 1)]


@pytest.mark.in_turn
def test_an_invocation_that_was_overtaken_does_not_mix_versions(
    lake: Warehouse, diamond: tuple[Model, Model, Model]
) -> None:
    left, _, _ = diamond
    mixed = lake.model(
        "mixed", "select l.city, l.n, x.id from {lefts} l join {landed} x on x.city = l.city", primary_key="id"
    )
    lake.run(mixed)
    pins = PinnedSnapshots()
    assert run(lake, mixed, pins).mode == "unchanged"
    lake.append("landed", [(3, "a")], LANDED)
    lake.run(left)
    lake.run(mixed)
    lake.append("landed", [(4, "a")], LANDED)
    assert run(lake, mixed, pins).mode == "unchanged"
    assert lake.rows(mixed) == [("a", 2, 1), ("a", 2, 3), ("b", 1, 2)]
    lake.run(left)
    lake.run(mixed)
    assert lake.rows(mixed) == [("a", 3, 1), ("a", 3, 3), ("a", 3, 4), ("b", 1, 2)]


@pytest.mark.slow
def test_a_query_that_is_computed_in_full_reads_its_upstreams_as_they_are(
    lake: Warehouse, diamond: tuple[Model, Model, Model]
) -> None:
    left, _, _ = diamond
    pins = PinnedSnapshots()
    run(lake, left, pins)
    lake.append("landed", [(3, "a")], LANDED)
    other = lake.model("others", GROUPED.format("landed"), primary_key="city")
    assert run(lake, other, pins).mode == "create"
    assert lake.rows(other) == [("a", 2), ("b", 1)]
    assert lake.broken(other) == []
