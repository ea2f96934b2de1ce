"""What others do while a service works, and what happens to what it works with: all tables become exact."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from arctic_runtime.errors import CommitConflict
from arctic_runtime.service.service import Service
from tests.crash.served import COLUMNS, batch, build, expected, models, project
from tests.spark.serving import Running, jobs_of, running, to_warehouse, until
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

pytestmark = pytest.mark.slow


class World:
    """A warehouse that is fed, and services that keep it until the test ends."""

    def __init__(self, lake: Warehouse) -> None:
        self.lake = lake
        self.project = project(lake, edited=True)
        self.batches, self.since = 1, 0
        self.services: list[Running] = []
        build(lake)

    def feed(self, count: int = 1) -> None:
        for _ in range(count):
            self.lake.append("events", batch(self.batches), COLUMNS)
            self.batches += 1

    def serve(self, schema: str | None = None) -> Running:
        """A service; one with another schema for its lease does not know of the first."""
        project = self.project
        one = Running(Service(project, to_warehouse(project.lake, schema))) if schema else running(project)
        self.services.append(one)
        return one

    def settle(self) -> None:
        """Waits until all tables show all events."""
        until(lambda: not self.differing(), 120, self.differing)

    def differing(self) -> dict[str, object]:
        """The tables that do not show all events yet, and what services know of them."""
        wanted = expected(self.batches, self.since)
        return {
            name: [(one.table(name), jobs_of(one, name)) for one in self.services]
            for name in wanted
            if self.shows(name) != wanted[name]
        }

    def shows(self, name: str) -> object:
        there = self.lake.reader.list_relations(self.lake.namespace)
        return self.lake.rows(self.model(name)) if name in there else None

    def model(self, name: str) -> Model:
        return next(model for model in self.project.models if model.table.name == name)

    def end(self) -> None:
        for one in self.services:
            one.stop()

    def is_exact(self) -> None:
        self.end()
        self.services.clear()
        for model in self.project.models:
            assert self.lake.broken(model) == []
        wanted = expected(self.batches, self.since)
        assert {name: self.shows(name) for name in wanted} == wanted


@pytest.fixture
def world(lake: Warehouse) -> Iterator[World]:
    made = World(lake)
    yield made
    made.end()


@contextmanager
def meanwhile(action: Callable[[], object]) -> Iterator[None]:
    """Does something again and again, in a thread of its own, until the block ends; raises what that raised."""
    over, failed = threading.Event(), list[BaseException]()

    def repeat() -> None:
        try:
            while not over.is_set():
                action()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(120)
    assert failed == []


def feed_slowly(world: World, count: int) -> None:
    for _ in range(count):
        world.feed()
        threading.Event().wait(0.5)


def test_two_services_that_both_lead_take_each_event_once(world: World) -> None:
    """As after a machine that slept for longer than its lease lasts."""
    first, second = world.serve(), world.serve(f"{world.lake.namespace}_other")
    until(lambda: (first.role(), second.role()) == ("leads", "leads"))
    feed_slowly(world, 15)
    world.settle()
    world.is_exact()


def test_a_service_takes_over_from_one_that_loses_its_lease_while_it_works(world: World) -> None:
    first = world.serve()
    until(lambda: first.role() == "leads")
    second = world.serve()
    with meanwhile(lambda: feed_slowly(world, 1)):
        until(lambda: second.role() == "stands_by")
        first.stop()
        until(lambda: second.role() == "leads")
        threading.Event().wait(2.0)
    world.settle()
    world.is_exact()


@pytest.mark.parametrize("full_refresh", [False, True])
def test_runs_alongside_a_service_win_or_lose_and_repeat_nothing(world: World, full_refresh: bool) -> None:
    session = world.lake.environment.new_session()

    def run() -> None:
        for model in world.project.models:
            with suppress(CommitConflict):
                world.lake.run(model, lambda: session, full_refresh=full_refresh)

    world.serve()
    with meanwhile(run):
        feed_slowly(world, 10)
    world.settle()
    world.is_exact()


def test_models_are_edited_added_and_removed_while_a_service_works(world: World) -> None:
    lake = world.project.lake
    world.project.edit(*models(lake, edited=False))
    one = world.serve()
    until(lambda: world.shows("newest") == expected(1)["newest"])
    top = lake.model("top", "select max(n) as n from {regions}", primary_key=[])
    world.project.edit(*models(lake, edited=True), top)
    with meanwhile(lambda: feed_slowly(world, 1)):
        until(lambda: world.shows("top"))
    world.settle()
    most = max(row[1] for row in expected(world.batches)["regions"])
    until(lambda: world.shows("top") == [(most,)])

    kept = [model for model in models(lake, edited=True) if model.table.name != "newest"]
    before = world.shows("newest")
    world.project.edit(*kept)
    until(lambda: one.table("newest") is None)
    world.feed(2)
    wanted = expected(world.batches)["regions"]
    until(lambda: world.shows("regions") == wanted)
    assert lake.rows(models(lake, edited=True)[-1]) == before
    world.project.edit(*models(lake, edited=True))
    world.settle()
    world.is_exact()


def test_a_source_that_is_dropped_and_made_again_is_read_from_its_start(world: World) -> None:
    """A model of events says that it needs a full refresh, as in a dbt run; others are computed in full without."""
    lake = world.project.lake
    whole = lake.model("whole", "select id, region, v from {state}", primary_key="id")
    lake.load("state", [(1, "a", 1), (2, "b", 2)], "id int, region string, v int")
    world.project.edit(*world.project.models, whole)
    one = world.serve()
    world.settle()
    until(lambda: world.shows("whole") == [(1, "a", 1), (2, "b", 2)])

    for name in ("events", "state"):
        lake.reader.catalog.drop_table((lake.namespace, name))
    until(lambda: {one.table(name).state for name in ("latest", "whole")} == {"failed"})  # type: ignore[union-attr]
    lake.load("state", [(2, "c", 2), (3, "d", 3)], "id int, region string, v int")
    world.since = world.batches
    world.feed(2)
    until(lambda: world.shows("whole") == [(2, "c", 2), (3, "d", 3)], 120)
    one.service.live.requests.refresh_tables(["latest"])
    until(lambda: "dropped and created again" in one.table("latest").error)  # type: ignore[union-attr]
    lake.run(world.model("latest"), full_refresh=True)
    one.service.live.requests.refresh_tables([])
    world.feed()
    world.settle()
    world.is_exact()
