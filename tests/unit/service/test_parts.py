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
from arctic_runtime.service.parts import Parts
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
