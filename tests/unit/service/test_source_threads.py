"""Sources are ingested as their newest settings say, and never by two ingestions at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from arctic_runtime.service.parts import Ingesting, Leadership, SourceThreads


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
