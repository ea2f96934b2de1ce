"""A part that is fuzzed, and what its run reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dbt_common.exceptions import DbtBaseException
from hypothesis.strategies import SearchStrategy

from arctic_runtime.errors import ArcticError
from arctic_runtime.ivm.algebra.refusal import NotMaintained

TYPED = (ArcticError, DbtBaseException, NotMaintained)
"""Errors that say to people what is wrong; any other error is a fault of the program."""


@dataclass(frozen=True)
class Target:
    """A part that is fuzzed: `check` raises an error that is not typed if the part does not do what it promises.

    `check` returns a word for what has become of the input, such as `refused`, which reports count.
    """

    name: str
    inputs: SearchStrategy[Any]
    check: Callable[[Any], str]


@dataclass
class Report:
    """The result of a run of a target: what has become of how many inputs, and faults with their inputs."""

    target: str
    executions: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    processor_seconds: float = 0.0
    is_guided: bool = False

    def count(self, outcome: str) -> None:
        self.executions += 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1


class Outcome:
    """What has become of an input; `refused` once a typed error was raised."""

    def __init__(self) -> None:
        self.word = "accepted"


@contextmanager
def expect_typed_errors() -> Iterator[Outcome]:
    """Lets typed errors pass, whose text has to be one that can be printed; all others are faults."""
    outcome = Outcome()
    try:
        yield outcome
    except TYPED as error:
        outcome.word = "refused"
        if isinstance(error, ArcticError):
            str(error).encode("utf-8", "strict")
