"""Models that dbt runs at times: when they are due, in which order, and what a failure holds back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.service.cron_schedules import Scheduled, is_due, read_cron, was_set_back
from arctic_runtime.service.shared_state import Clock, SharedState
from arctic_runtime.service.timetable import Timetable
from arctic_runtime.thresholds import ServiceThresholds
from tests.unit.service.unreached import unreached_state

SIX = datetime(2026, 3, 2, 6, 0)
MINUTE = timedelta(minutes=1)
LIMITS = ServiceThresholds()


def t(name: str) -> TableName:
    return TableName("lake", "mart", name)


def scheduled(name: str, *above: str, cron: str = "0 6 * * *") -> Scheduled:
    return Scheduled(name, t(name), cron, frozenset(above))


@dataclass
class Shop:
    """A project whose models are run by a function here, and what is kept of their runs."""

    models: list[Scheduled]
    kept: dict[str, float] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    fails: set[str] = field(default_factory=set)
    shared: SharedState = field(default_factory=unreached_state)
    ended: list[str] = field(default_factory=list)
    now: datetime = SIX - 10 * MINUTE
    seconds: float = 0.0
    meanwhile: Callable[[], None] = lambda: None

    def list_scheduled(self) -> list[Scheduled]:
        return self.models

    def run_scheduled(self, name: str) -> str:
        self.ran.append(name)
        self.meanwhile()
        if name in self.fails:
            raise ConfigError("no such column")
        return "OK"

    def prepare_thread(self) -> None:
        """Nothing to do without dbt."""

    def list_run_times(self) -> Mapping[str, float]:
        return self.kept

    def note_run(self, at: Mapping[str, float]) -> None:
        self.kept = {**self.kept, **at}

    @property
    def errors(self) -> Mapping[str, str]:
        return self.shared.get_state().errors

    def pause(self, *names: str) -> None:
        self.shared.paused = Paused(tables=frozenset(str(t(name)) for name in names))

    def service(self) -> Timetable:
        """A service that begins to lead."""
        project: Any = self
        clock = Clock(lambda: self.seconds, self.time)
        return Timetable(project, self, self.shared, lambda of: self.ended.append(of.name), clock)

    def time(self) -> float:
        return self.now.timestamp()

    def asked(self) -> list[str]:
        """Which were run since this was last asked."""
        found, self.ran = self.ran, []
        return found


def test_a_model_is_run_when_its_time_has_come_and_not_before() -> None:
    shop = Shop([scheduled("daily")])
    service = shop.service()
    service.run_due()
    assert shop.asked() == []
    shop.now = SIX
    service.run_due()
    service.run_due()
    assert shop.asked() == ["daily"]
    assert shop.ended == ["daily"]
    (job,) = shop.shared.jobs.list_jobs()
    assert (job.kind, job.state, job.reason, job.lines) == ("run", "done", "scheduled: 0 6 * * *", ("OK",))
    shop.now += timedelta(days=1)
    service.run_due()
    assert shop.asked() == ["daily"]


def test_times_that_passed_without_a_service_are_made_up_for_once() -> None:
    shop = Shop([scheduled("daily")])
    shop.service().run_due()
    shop.now = SIX + timedelta(days=3)
    service = shop.service()
    service.run_due()
    service.run_due()
    assert shop.asked() == ["daily"]


def test_a_model_runs_after_those_that_it_reads_and_waits_for_one_that_fails() -> None:
    shop = Shop([scheduled("clean"), scheduled("daily", "clean"), scheduled("other")])
    service = shop.service()
    service.run_due()
    shop.now, shop.fails = SIX, {"clean"}
    service.run_due()
    assert shop.asked() == ["clean", "other"]
    assert shop.errors["schedule of clean"] == "no such column\n  tried again in 1 s"
    service.run_due()
    assert shop.asked() == []
    shop.seconds, shop.fails = LIMITS.retry_seconds, set()
    service.run_due()
    assert shop.asked() == ["clean", "daily"]
    assert shop.errors == {}


def test_a_paused_model_and_those_below_it_are_left_alone_until_it_is_resumed() -> None:
    shop = Shop([scheduled("clean"), scheduled("daily", "clean")])
    service = shop.service()
    service.run_due()
    shop.now = SIX
    shop.pause("clean")
    service.run_due()
    assert shop.asked() == []
    shop.pause()
    service.run_due()
    assert shop.asked() == ["clean", "daily"]


def test_a_run_that_a_process_did_not_live_to_see_the_end_of_is_run_again() -> None:
    shop = Shop([scheduled("daily")])
    shop.service().run_due()
    shop.now = SIX

    def die() -> None:
        raise KeyboardInterrupt

    shop.meanwhile = die
    with pytest.raises(KeyboardInterrupt):
        shop.service().run_due()
    shop.meanwhile = lambda: None
    shop.service().run_due()
    assert shop.asked() == ["daily", "daily"]
    shop.service().run_due()
    assert shop.asked() == []


def test_a_clock_that_is_set_back_holds_nothing_up_and_summer_time_repeats_nothing() -> None:
    shop = Shop([scheduled("daily")])
    service = shop.service()
    service.run_due()
    shop.now = SIX
    service.run_due()
    shop.now = SIX - timedelta(hours=1)
    service.run_due()
    shop.now = SIX
    service.run_due()
    assert shop.asked() == ["daily"]
    shop.now = SIX - timedelta(days=30)
    service.run_due()
    shop.now += timedelta(days=1)
    service.run_due()
    assert shop.asked() == ["daily"]


def test_what_is_not_scheduled_any_more_is_forgotten() -> None:
    shop = Shop([scheduled("daily")], fails={"daily"})
    service = shop.service()
    service.run_due()
    shop.now = SIX
    service.run_due()
    assert shop.errors["schedule of daily"]
    shop.models = []
    service.run_due()
    assert shop.errors == {}


def test_a_catalog_that_does_not_answer_ends_nothing() -> None:
    shop, over = Shop([scheduled("daily")]), threading.Event()
    service = shop.service()
    looks: list[int] = []

    def away() -> Mapping[str, float]:
        looks.append(1)
        if len(looks) == 1:
            raise ConfigError("the catalog does not answer")
        over.set()
        return {}

    shop.list_run_times = away  # type: ignore[method-assign]
    service.run_until(over)
    assert shop.errors == {}
    assert shop.kept == {"daily": shop.now.timestamp()}


def test_a_run_whose_end_can_not_be_noted_is_not_repeated_by_the_service_that_saw_it() -> None:
    shop = Shop([scheduled("daily")])
    service = shop.service()
    service.run_due()
    shop.now = SIX

    def away(_: Mapping[str, float]) -> None:
        raise ConfigError("the catalog does not answer")

    shop.note_run = away  # type: ignore[method-assign]
    with pytest.raises(ConfigError):
        service.run_due()
    service.run_due()
    assert shop.asked() == ["daily"]


@pytest.mark.parametrize(
    "text", ["", "daily", "@daily", "61 * * * *", "0 0 30 2 *", "0 6 * *", "0 0 6 * * *", 6, None, "0 6 * * noday"]
)
def test_what_is_no_cron_expression_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match="`schedule` must be a cron expression"):
        read_cron("schedule", text)


CRONS = st.builds(
    "{} {} * * {}".format,
    st.sampled_from(["*", "0", "30", "*/7", "5,50"]),
    st.sampled_from(["*", "6", "0-4", "*/5"]),
    st.sampled_from(["*", "mon-fri", "0", "2"]),
)
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1))


@given(CRONS, MOMENTS, st.integers(0, 20_000))
def test_a_model_is_due_exactly_where_a_minute_of_its_expression_has_passed(
    cron: str, last: datetime, gap: int
) -> None:
    """Each minute in between is looked at, as the least that a cron does."""
    now, at = last + timedelta(seconds=gap), last.replace(second=0, microsecond=0) + MINUTE
    has_passed = False
    while at <= now:
        has_passed = has_passed or _fits(cron, at)
        at += MINUTE
    assert is_due(cron, last, now) == has_passed
    assert not was_set_back(last, now)


def _fits(cron: str, at: datetime) -> bool:
    minute, hour, _, _, day = cron.split()
    days = {"*": range(7), "mon-fri": range(5), "0": [6], "2": [1]}[day]
    return _is_in(minute, at.minute) and _is_in(hour, at.hour) and at.weekday() in days


def _is_in(part: str, value: int) -> bool:
    if part.startswith("*"):
        return value % int(part[2:] or 1) == 0
    if "-" in part:
        first, last = map(int, part.split("-"))
        return first <= value <= last
    return str(value) in part.split(",")
