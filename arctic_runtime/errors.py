"""All errors that dbt-arctic raises on purpose, and the known name that the user probably meant, for their messages.

ArcticError
├── ConfigError       what the user wrote can't be used; nothing was read or written
├── SourceError       an upstream can't be read as needed (dropped, recreated, rewritten)
├── DataError         rows violate a declaration (null or duplicate keys); nothing was written
├── PlanError         the model can't be maintained in the requested mode
├── CommitConflict    another writer committed first: observe again, then retry
├── CommitUnknown     a commit's outcome is not known: look for its run token, delete nothing
├── SparkEnded        Java or a Spark server ended under a run: run again
├── CatalogError      the catalog or the warehouse can't be reached, read or written
└── CorruptState      tables contradict one another; a person has to look
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ArcticError",
    "CatalogError",
    "CommitConflict",
    "CommitUnknown",
    "ConfigError",
    "CorruptState",
    "DataError",
    "PlanError",
    "SourceError",
    "SparkEnded",
]


_RUN_AGAIN = "run again; if another writer is faster each time, let it pause meanwhile"

_LABELS = {"where": "where", "expected": "expected", "actual": "found", "fix": "what to do"}
"""Maps the fields of an error to their labels in the error's text."""


class ArcticError(Exception):
    """Base class of all errors that dbt-arctic raises on purpose.

    `message` describes the fault; further lines may have examples. `where` names the setting, column or file,
    `expected` and `actual` are the expected and the actual value, and `fix` is advice to the user; each of these is
    None if it is not known. The error's text has a line for each part that is not None. Pickling keeps the parts.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        actual: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(_make_printable(message))
        self.message = _make_printable(message)
        self.where = where and _make_printable(where)
        self.expected = expected and _make_printable(expected)
        self.actual = actual and _make_printable(actual)
        self.fix = fix and _make_printable(fix)

    def __str__(self) -> str:
        parts = (f"  {_LABELS[name]}: {text}" for name, text in self.details.items())
        return "\n".join((self.message.rstrip("\n"), *parts))

    @property
    def details(self) -> dict[str, str]:
        """Parts besides the message that are not None, by field name: `where`, `expected`, `actual`, `fix`."""
        parts = {"where": self.where, "expected": self.expected, "actual": self.actual, "fix": self.fix}
        return {name: text for name, text in parts.items() if text is not None}


def _make_printable(text: str) -> str:
    """Returns a text with halves of surrogate pairs, which no terminal, file or database takes, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class ConfigError(ArcticError):
    """Raised if a profile, a model's configuration or an argument can't be used; the user has to change it."""


class SourceError(ArcticError):
    """Raised if an upstream can't be read as needed; for example, it was recreated, so its changes are not known."""


class DataError(ArcticError):
    """Raised if rows violate a declaration of the model, such as its primary key; nothing was written."""


class PlanError(ArcticError):
    """Raised if a model can't be refreshed in the way that its configuration requires, such as incrementally."""


class CommitConflict(ArcticError):
    """Raised if another writer committed after this attempt observed the table.

    The attempt changed nothing and can be retried; the error says so unless it is given another `fix`.
    """

    def __init__(self, message: str, **parts: str | None) -> None:
        super().__init__(message, **{"fix": _RUN_AGAIN, **parts})


class CommitUnknown(ArcticError):
    """Raised if it is not known whether a commit succeeded; the commit's files must then not be deleted yet."""


class SparkEnded(ArcticError):
    """Raised if Spark ended during a run or an operation; finished commits are kept, and the next run continues."""


class CatalogError(ArcticError):
    """Raised if the catalog or the warehouse can't be reached, read or written."""


class CorruptState(ArcticError):
    """Raised if two tables, or a table and its metadata, contradict each other, so that a run could lose rows."""


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most similar to `name`; None if none is similar."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return close[0] if close else None


def suggest_nearest(name: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean 'x'?)` with the known name x that is most similar to `name`, or "" if none is similar."""
    nearest = find_nearest(name, known)
    return "" if nearest is None else f" (did you mean '{nearest}'?)"
