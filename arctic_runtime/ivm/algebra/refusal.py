"""Refusals: reasons for which a query, or one run of it, can't be maintained incrementally."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast, get_args

from arctic_runtime.model.step import Reason

MOST_TEXT = 300
"""Maximum length of an error's text that is stored in the summary of a commit, which each later run reads."""


class NotMaintained(Exception):
    """Raised if no rule of maintenance covers a query, or a change of a table that the query reads.

    The run then computes the query in full and compares the result with the stored rows. `reason` is a code such as
    `UNSUPPORTED`; `because` explains it to users in one line.
    """

    def __init__(self, reason: Reason, because: str) -> None:
        super().__init__(f"{reason}: {because}")
        self.reason = reason
        self.because = because


@dataclass(frozen=True)
class Refusal:
    """The reason why a run computes its whole query instead of the changes only.

    `because` explains the reason to users in one line. `lasts` is True if later runs are refused as well, until the
    query, a setting or the rules of maintenance change.
    """

    reason: Reason
    because: str
    lasts: bool = True

    def __str__(self) -> str:
        """Formats the refusal as the text that is stored in a commit's summary."""
        return f"{self.reason} {self.because}" if self.lasts else f"{self.reason} - {self.because}"

    @classmethod
    def from_text(cls, text: str | None) -> Refusal | None:
        """Parses a refusal from the text in a commit's summary; None without a text or if its reason is unknown."""
        reason, _, because = (text or "").partition(" ")
        if reason not in get_args(Reason):
            return None
        return cls(cast(Reason, reason), because.removeprefix("- "), not because.startswith("- "))


@contextmanager
def refuse_on_error() -> Iterator[None]:
    """Turns errors raised in a `with` block into NotMaintained; NotMaintained and MemoryError pass unchanged."""
    try:
        yield
    except (NotMaintained, MemoryError):
        raise
    except Exception as error:
        raise NotMaintained("INCREMENT_FAILED", locate_error(error)) from error


def locate_error(error: BaseException) -> str:
    """Returns the first line of an error's text; for one of Python's own types, with the line of code that raised it.

    Such an error is a fault of this package, and a report of it needs the place: its text may be empty or a bare key.
    """
    text, frames = get_first_line(error), traceback.extract_tb(error.__traceback__)
    if type(error).__module__ != "builtins" or not frames:
        return text
    # The file and two folders above it are enough to find it, and show nothing of the machine's folders.
    file = "/".join(frames[-1].filename.replace("\\", "/").split("/")[-3:])
    place = f" ({file}:{frames[-1].lineno})"
    return text[: MOST_TEXT - len(place)] + place


def get_first_line(error: BaseException) -> str:
    """Returns the first line of an error's text, at most `MOST_TEXT` characters.

    The name of the error's type precedes it, unless the text begins with an error class in brackets.
    """
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    return (text if text.startswith("[") else f"{type(error).__name__}: {text}".removesuffix(": "))[:MOST_TEXT]
