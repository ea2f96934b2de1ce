"""Why a query can't be maintained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast, get_args

from arctic_runtime.model.step import Reason

MOST_TEXT = 300
"""Characters of an error that are kept: the summary of a commit is read in each later run."""


class NotMaintained(Exception):
    """A query, or a change to what it reads, that no rule covers; it is recomputed in full and compared.

    `reason` is a code, `because` one line for people.
    """

    def __init__(self, reason: Reason, because: str) -> None:
        super().__init__(f"{reason}: {because}")
        self.reason = reason
        self.because = because


@dataclass(frozen=True)
class Refusal:
    """Why an incremental run computes in full instead.

    It `lasts` where the next run would end in the same way, until the query, a setting or the rules are others.
    """

    reason: Reason
    because: str
    lasts: bool = True

    def __str__(self) -> str:
        """The text that a commit's summary keeps."""
        return f"{self.reason} {self.because}" if self.lasts else f"{self.reason} - {self.because}"

    @classmethod
    def from_text(cls, text: str | None) -> Refusal | None:
        """From such a text; None if there is none, or one with a reason of another version."""
        reason, _, because = (text or "").partition(" ")
        if reason not in get_args(Reason):
            return None
        return cls(cast(Reason, reason), because.removeprefix("- "), not because.startswith("- "))


@contextmanager
def refuse_on_error() -> Iterator[None]:
    """Turns any other error of planning an increment into the refusal to maintain the query."""
    try:
        yield
    except (NotMaintained, MemoryError):
        raise
    except Exception as error:
        raise NotMaintained("INCREMENT_FAILED", get_first_line(error)) from error


def get_first_line(error: BaseException) -> str:
    """First line of an error, after its type if that says more."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    return (text if text.startswith("[") else f"{type(error).__name__}: {text}".removesuffix(": "))[:MOST_TEXT]
