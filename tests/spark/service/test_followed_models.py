"""Followed models over real tables: one state of the sources, failures, other writers, and nothing computed in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from arctic_runtime.effects import set_failpoint
from arctic_runtime.model.table import Model
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.refresh_task import (
    Refresher,
    RefreshListeners,
    RefreshResult,
    RefreshWorkers,
    Report,
    Task,
)
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.spark.engine.session_pool import SessionPool
from tests.spark.warehouse import Warehouse

LANDED = "id int, city string"
GROUPED = "select city, count(*) as n from {{{0}}} group by city"


@dataclass
class Following:
    """A follower of models of a warehouse, and what it told of them."""

    lake: Warehouse
    models: list[Model]
    reports: list[Report] = field(default_factory=list)
    meanwhile: Callable[[Task], None] = lambda _: None

    def __post_init__(self) -> None:
        refresh = Refresher(self.lake.reader, SessionPool(self.lake.environment.profile), lambda _: ())

        def refreshed(task: Task) -> RefreshResult:
            self.meanwhile(task)
            return refresh(task)

        workers, listeners = RefreshWorkers(refreshed, 2), RefreshListeners(report=self.reports.append)
        self.follower = Follower(SharedState(self.lake.reader), workers, listeners)
        self.follow(*self.models)

    def follow(self, *models: Model) -> None:
        self.models = list(models)
        self.follower.follow_models([FollowedModel(model, model.table.name) for model in models])

    def once(self) -> dict[str, str]:
        """A pass; returns what became of each model that was planned, by its name."""
        self.reports.clear()
        self.follower.run_once()
        return {report.followed.name: self.modes(report) for report in self.reports}

    @staticmethod
    def modes(report: Report) -> str:
        return report.status if report.done is None else report.done.refreshed.outcome.mode

    def broken(self) -> list[str]:
        return [text for model in self.models for text in self.lake.broken(model)]


Follow = Callable[..., Following]


@pytest.fixture
def following(lake: Warehouse) -> Iterator[Follow]:
    """Makes followers, whose threads end with the test."""
    made: list[Following] = []

    def make(*models: Model) -> Following:
        made.append(Following(lake, list(models)))
        return made[-1]

    yield make
    for one in made:
        one.follower.close_workers()


@pytest.fixture
def diamond(lake: Warehouse) -> tuple[Model, Model, Model]:
    """Two models over one landing table, and one that compares them."""
    lake.append("landed", [(1, "a"), (2, "b")], LANDED)
    left = lake.model("lefts", GROUPED.format("landed"), primary_key="city")
    right = lake.model("rights", GROUPED.format("landed"), primary_key="city", merge="on_read")
    both = lake.model(
        "both", "select l.city, l.n as lefts, r.n as rights from {lefts} l full join {rights} r using (city)",
        primary_key="city",
    )  # fmt: skip
    return left, right, both


@pytest.mark.in_turn
def test_a_diamond_shows_one_state_of_its_source_although_that_moves_on(
    lake: Warehouse, diamond: tuple[Model, Model, Model], following: Follow
) -> None:
    service = following(*diamond)
    assert service.once() == dict.fromkeys(("lefts", "rights", "both"), "create")
    assert set(service.once().values()) == {"unchanged"}
    assert service.once() == {}
    lake.append("landed", [(3, "a")], LANDED)
    moving = threading.Lock()

    def move(task: Task) -> None:
        with moving:
            lake.append("landed", [(4, "a"), (5, "c")], LANDED)

    service.meanwhile = move
    assert service.once() == dict.fromkeys(("lefts", "rights", "both"), "incremental")
    assert lake.rows(diamond[2]) == [("a", 2, 2), ("b", 1, 1)]
    service.meanwhile = lambda _: None
    assert service.once() == dict.fromkeys(("lefts", "rights", "both"), "incremental")
    assert lake.rows(diamond[2]) == [("a", 5, 5), ("b", 1, 1), ("c", 3, 3)]
    assert service.broken() == []


@pytest.mark.in_turn
def test_a_failure_holds_back_downstream_tables_until_it_is_repaired(
    lake: Warehouse, diamond: tuple[Model, Model, Model], following: Follow
) -> None:
    left, _, _ = diamond
    keyed = lake.model("keyed", "select id, city from {landed}", primary_key="id")
    below = lake.model("below", "select city, count(*) as n from {keyed} group by city", primary_key="city")
    service = following(left, keyed, below)
    service.once()
    lake.append("landed", [(2, "twice")], LANDED)
    assert service.once() == {"lefts": "incremental", "keyed": "failed", "below": "skipped"}
    assert "duplicate key" in next(report.error for report in service.reports if report.error)
    mended = lake.model("keyed", "select id, max(city) as city from {landed} group by id", primary_key="id")
    service.follow(left, mended, below)
    modes = service.once()
    assert (modes["keyed"], modes["below"]) == ("full", "incremental")
    assert lake.rows(below) == [("a", 1), ("twice", 1)]
    assert service.broken() == []


@pytest.mark.slow
def test_a_model_that_is_added_or_edited_is_planned_and_no_other(
    lake: Warehouse, diamond: tuple[Model, Model, Model], following: Follow
) -> None:
    left, right, both = diamond
    service = following(left)
    service.once()
    service.once()
    service.follow(left, right, both)
    assert service.once() == {"rights": "create", "both": "create"}
    edited = lake.model("lefts", "select city, count(*) + 100 as n from {landed} group by city", primary_key="city")
    service.once()
    service.follow(edited, right, both)
    assert service.once() == {"lefts": "full", "both": "incremental"}
    assert lake.rows(both) == [("a", 101, 1), ("b", 101, 1)]


@pytest.mark.slow
def test_a_result_that_depends_on_the_clock_is_computed_when_its_tables_move_and_else_not(
    lake: Warehouse, following: Follow
) -> None:
    lake.append("landed", [(1, "a")], LANDED)
    service = following(lake.model("m", "select id, current_timestamp() as at from {landed}", primary_key="id"))
    assert service.once() == {"m": "create"}
    assert service.once() == {"m": "unchanged"}
    assert service.once() == {}
    lake.append("landed", [(2, "b")], LANDED)
    assert service.once() == {"m": "full"}
    assert service.once() == {"m": "unchanged"}
    assert service.once() == {}


@pytest.mark.in_turn
def test_each_event_counts_once_for_models_over_models(lake: Warehouse, following: Follow) -> None:
    lake.append("events", [(1, "x", 1), (2, "y", 2)], "id int, v string, lsn int")
    ods = lake.model(
        "ods", "select id, v, lsn from {changes(events)}", primary_key="id", input="changes", sequence_by="lsn"
    )
    audit = lake.model(
        "audit", "select id, _action as action from {changes(ods)}", primary_key="id", input="changes"
    )  # fmt: skip
    service = following(ods, audit)
    assert service.once() == {"ods": "create", "audit": "create"}
    lake.append("events", [(1, "z", 3), (3, "n", 4)], "id int, v string, lsn int")
    assert service.once() == {"ods": "incremental", "audit": "incremental"}
    assert lake.rows(audit) == [(1, "update"), (2, "insert"), (3, "insert")]
    assert service.broken() == []


def test_what_another_run_left_undone_is_done_without_news(
    lake: Warehouse, diamond: tuple[Model, Model, Model], following: Follow
) -> None:
    left, _, _ = diamond
    service = following(left)
    service.once()
    service.once()
    lake.append("landed", [(3, "a")], LANDED)

    def die(name: str, action: Callable[[], Any]) -> Any:
        result = action()
        if name == "commit.publish":
            raise KeyboardInterrupt
        return result

    with set_failpoint(die), suppress(KeyboardInterrupt):
        lake.run(left)
    assert lake.rows(left) == [("a", 1), ("b", 1)]
    assert service.once() == {"lefts": "unchanged"}
    assert lake.rows(left) == [("a", 2), ("b", 1)]


@pytest.mark.in_turn
def test_followers_and_runs_of_dbt_may_work_at_the_same_models(
    lake: Warehouse, diamond: tuple[Model, Model, Model], following: Follow
) -> None:
    one, other = following(*diamond), following(*diamond)
    one.once()

    def follow(service: Following) -> None:
        for _ in range(3):
            service.follower.run_once()

    threads = [threading.Thread(target=follow, args=(service,)) for service in (one, other)]
    for thread in threads:
        thread.start()
    for number in range(3):
        lake.append("landed", [(10 + number, "a")], LANDED)
    for thread in threads:
        thread.join()
    for service in (one, other):
        assert "failed" not in {report.status for report in service.reports}
    one.once()
    assert lake.rows(diamond[2]) == [("a", 4, 4), ("b", 1, 1)]
    assert one.broken() == []
