"""A source is probed while a batch is written: a failure is told at the first probe, and the end of it too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.job.source_watch import watch_source


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
