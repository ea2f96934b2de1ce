"""A source is probed while a batch is written: a failure is told at the first probe, and the end of it too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.job.source_watch import LoadCounts, watch_source
from arctic_runtime.model.sources.ingestion import LoadProgress, Progress


@dataclass
class Source:
    """A transport whose source answers as `answers` say, one for each probe; then `is_over`."""

    answers: list[str]
    probe_seconds: float = 0.0
    is_over: threading.Event = field(default_factory=threading.Event)
    is_closed: bool = False

    def open_probe(self) -> Any:
        return self

    def check_answer(self) -> None:
        if not self.answers:
            self.is_over.set()
        elif error := self.answers.pop(0):
            raise SourceError(error)

    def close_probe(self) -> None:
        self.is_closed = True


def watch(source: Any, find_stall: Callable[[], str] = str) -> list[tuple[str, str]]:
    noted: list[tuple[str, str]] = []
    with watch_source(source, lambda error, last: noted.append((error, last)), find_stall):
        assert source.is_over.wait(10)
    return noted


@pytest.mark.parametrize(
    ("answers", "noted"),
    [
        (["", ""], []),
        (["", "away", ""], [("away", ""), ("", "away")]),
        (["away", "away", "refused", ""], [("away", ""), ("away", "away"), ("refused", "away"), ("", "refused")]),
    ],
)
def test_each_failed_probe_is_noted_and_the_next_answer(answers: list[str], noted: list[tuple[str, str]]) -> None:
    """A batch that is saved while the source is away clears its failure, so it is noted again."""
    source = Source(answers)
    assert watch(source) == noted
    assert source.is_closed


def test_a_source_that_answers_and_sends_nothing_is_noted_until_it_sends() -> None:
    stalls = iter(["no row", "no row", ""])
    source = Source(["", "", "away", ""])
    assert watch(source, lambda: next(stalls, "")) == [
        ("no row", ""),
        ("no row", "no row"),
        ("away", "no row"),
        ("", "away"),
    ]


def test_a_source_without_probes_is_not_watched() -> None:
    with watch_source(object(), lambda *_: pytest.fail("nothing was asked"), str):  # type: ignore[arg-type]
        pass


NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)


def test_rows_of_a_load_are_counted_to_its_last_batch_and_later_changes_are_not() -> None:
    counts = LoadCounts()
    counts.begin_load(["a", "b"], {"a": 1000}, Progress())
    counts.add_rows({"a": 100}, is_snapshot=True)
    counts.add_rows({"a": 67, "b": 2}, is_snapshot=True)
    assert counts.loading == {"a": LoadProgress(167, 1000), "b": LoadProgress(2)}
    counts.add_rows({"a": 3, "b": 0}, is_snapshot=False)
    counts.add_rows({"a": 50}, is_snapshot=False)
    assert counts.loading["a"].rows == 170
    counts.end_load(["a"])
    assert counts.loading == {"b": LoadProgress(2)}


def test_a_load_that_restarts_is_counted_from_its_begin() -> None:
    counts = LoadCounts()
    counts.begin_load(["a"], {}, Progress())
    counts.add_rows({"a": 5}, is_snapshot=False)
    counts.restart_load(["a"])
    counts.add_rows({"a": 3}, is_snapshot=True)
    assert counts.loading == {"a": LoadProgress(3)}


def test_a_load_stands_still_if_it_waits_for_rows_and_not_while_it_writes_some() -> None:
    times = [NOON]
    counts = LoadCounts(lambda: times[-1])
    assert counts.find_stall(150) is None
    counts.begin_load(["a", "b"], {}, Progress())
    times.append(NOON + timedelta(seconds=150))
    assert counts.find_stall(150) is None
    times.append(NOON + timedelta(seconds=151))
    assert counts.find_stall(150) == NOON
    counts.begin_batch()
    assert counts.find_stall(150) is None
    counts.add_rows({"a": 3}, is_snapshot=True)
    times.append(NOON + timedelta(seconds=400))
    assert counts.find_stall(150) == NOON + timedelta(seconds=151)
    counts.end_load(["a", "b"])
    assert counts.find_stall(150) is None


def test_a_table_shows_the_source_as_before_until_its_load_ends() -> None:
    """Also if a process dies in the load, and the next one begins it again."""
    known, counts = Progress("7", newest=NOON, tables=frozenset({"a"})), LoadCounts()
    for _ in range(2):
        counts.begin_load(["a", "b"], {}, known)
        known = Progress("0", tables=frozenset({"a", "b"}), loading=counts.loading)
        later = datetime(2026, 1, 2, 13, tzinfo=timezone.utc)
        assert known.get_table_progress("a", newest=later).as_of == NOON
        assert known.get_table_progress("b", newest=later).as_of is None
    assert Progress.decode(known.encode()) == known
