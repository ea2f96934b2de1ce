"""Parts of a service run until leadership ends: one that ends earlier is shown, and started again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from arctic_runtime.service.parts import Ingesting, Leadership, Parts, SourceThreads
from arctic_runtime.service.shared_state import SharedState
from tests.thresholds import changed

QUICK = {"poll_seconds": 0.001, "retry_seconds": 0.001, "retry_doublings": 0, "steady_seconds": 0.0}


@dataclass
class Running:
    """Parts of a leading service, and what it says."""

    shared: SharedState
    ended: threading.Event = field(default_factory=threading.Event)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = Parts(self.shared, self.ended, self.said.append)

    def wait(self, holds: Callable[[], object]) -> None:
        """Waits until something holds, which is looked at after each event of the service."""
        seen = 0
        while not holds():
            seen = self.shared.events.wait_after(seen, 10.0)[0][-1].number


@contextmanager
def running(**actions: Callable[[threading.Event], object]) -> Iterator[Running]:
    profile = Profile.for_embedded("/nowhere")
    reader = CatalogReader(replace(profile, thresholds=changed(profile.thresholds, service=QUICK)))
    leads = Running(SharedState(reader))
    leads.parts.start_parts({name: partial(action, leads.ended) for name, action in actions.items()})
    try:
        yield leads
    finally:
        leads.ended.set()
        leads.parts.join_parts()


def test_a_part_that_fails_is_shown_started_again_and_well_when_it_runs() -> None:
    attempts: list[str] = []

    def work(ended: threading.Event) -> None:
        attempts.append("begun")
        if len(attempts) < 3:
            raise OSError("no space")
        ended.wait()

    with running(upkeep=work) as leads:
        leads.wait(lambda: "no space" in leads.shared.get_state().errors.get("upkeep", ""))
        leads.wait(lambda: len(attempts) == 3 and not leads.shared.get_state().errors)
        assert leads.shared.get_state().ended_parts == ()
    assert [line.partition("\n")[0] for line in leads.said] == ["upkeep: no space"] * 2


def test_a_part_that_was_told_to_end_is_not_started_again() -> None:
    attempts: list[str] = []
    ended = threading.Event()

    def ingest() -> None:
        attempts.append("begun")
        ended.wait()

    with running() as leads:
        part = leads.parts.start_part("ingest shop", ingest, ended)
        ended.set()
        part.join()
        leads.parts.start_part("ingest crm", lambda: None, threading.Event())
        leads.wait(lambda: leads.shared.get_state().ended_parts == ("ingest crm",))
    assert attempts == ["begun"]


def test_parts_that_end_with_leadership_are_no_error() -> None:
    with running(upkeep=threading.Event.wait, tests=threading.Event.wait) as leads:
        pass
    assert (leads.said, dict(leads.shared.get_state().errors)) == ([], {})


@pytest.mark.parametrize("later", ["", "the source is away"])
def test_an_end_is_shown_until_the_part_works_and_another_error_stays(later: str) -> None:
    with running() as leads:
        leads.shared.set_error("ingest shop", "ended", has_ended=True)
        assert leads.shared.get_state().ended_parts == ("ingest shop",)
        leads.shared.set_error("ingest shop", later)
        assert leads.shared.get_state().ended_parts == ()
        leads.shared.clear_end("ingest shop")
        assert leads.shared.get_state().errors == ({"ingest shop": later} if later else {})


def test_the_end_calls_what_was_registered_and_not_what_was_taken_back() -> None:
    leadership, called, removed = Leadership(), threading.Event(), threading.Event()
    leadership.call_at_end(called.set)
    remove = leadership.call_at_end(removed.set)
    remove()
    leadership.end_leadership()
    assert called.wait(10)
    assert leadership.ended.is_set()
    assert not removed.is_set()


def test_an_action_that_is_registered_after_the_end_is_called_at_once() -> None:
    leadership, called = Leadership(), threading.Event()
    leadership.end_leadership()
    leadership.call_at_end(called.set)
    assert called.is_set()


@dataclass
class Source:
    """An ingestion that goes on until it is stopped, and then still has a batch under way."""

    name: str
    settings: str
    began: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    batch: threading.Event = field(default_factory=threading.Event)
    is_over: bool = False

    def run_ingestion(self) -> None:
        self.began.set()
        assert self.stopping.wait(60)
        assert self.batch.wait(60)
        self.is_over = True

    def stop_ingestion(self) -> None:
        self.stopping.set()


class Starter:
    """Starts threads, and waits for their end."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def start(self, name: str, action: Callable[[], None], _: threading.Event) -> threading.Thread:
        thread = threading.Thread(target=action, name=name)
        self.threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


def ingest(period: Leadership, ingestion: Ingesting) -> None:
    """As a service does, which begins nothing when the period has ended."""
    if not period.ended.is_set():
        period.call_at_end(ingestion.stop_ingestion)
        ingestion.run_ingestion()


@pytest.fixture
def leadership() -> Leadership:
    return Leadership()


@pytest.fixture
def starter() -> Starter:
    return Starter()


@pytest.fixture
def threads(leadership: Leadership, starter: Starter) -> Iterator[SourceThreads]:
    yield SourceThreads(leadership, ingest, starter.start)
    leadership.end_leadership()
    starter.join()


def test_edited_settings_take_over_after_the_batch_under_way(threads: SourceThreads) -> None:
    old, new, other = Source("shop", "a"), Source("shop", "b"), Source("crm", "a")
    for source in (new, other):
        source.batch.set()
    assert threads.use_ingestions([old, other]) == ["shop", "crm"]
    assert old.began.wait(60)
    assert other.began.wait(60)
    assert threads.use_ingestions([new, Source("crm", "a")]) == ["shop"]
    assert old.stopping.wait(60)
    assert not new.began.is_set()
    old.batch.set()
    assert new.began.wait(60)
    assert old.is_over
    assert not other.stopping.is_set()


def test_sources_that_are_taken_out_end_and_new_ones_begin(threads: SourceThreads) -> None:
    old, new = Source("shop", "a"), Source("crm", "a")
    for source in (old, new):
        source.batch.set()
    threads.use_ingestions([old])
    assert threads.use_ingestions([new]) == ["shop", "crm"]
    assert old.stopping.wait(60)
    assert new.began.wait(60)


def test_settings_that_are_edited_twice_meanwhile_count_once(threads: SourceThreads) -> None:
    first, second, third = (Source("shop", settings) for settings in "abc")
    third.batch.set()
    threads.use_ingestions([first])
    assert first.began.wait(60)
    threads.use_ingestions([second])
    threads.use_ingestions([third])
    first.batch.set()
    assert third.began.wait(60)
    assert not second.began.is_set()


def test_all_sources_end_with_leadership(leadership: Leadership, threads: SourceThreads, starter: Starter) -> None:
    source = Source("shop", "a")
    source.batch.set()
    threads.use_ingestions([source])
    assert source.began.wait(60)
    leadership.end_leadership()
    starter.join()
    assert source.is_over
