"""Every error that dbt-arctic raises on purpose.

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


_LABELS = {"where": "where", "expected": "expected", "actual": "found", "fix": "what to do"}
"""The label of each field of an error in the error's text."""


class ArcticError(Exception):
    """Base class of all errors that dbt-arctic raises on purpose.

    `message` says what is wrong, and may have further lines, such as examples. `where` says in which setting, column or
    file, `expected` and `actual` what was expected and found there, and `fix` what to do next; each is None if it is
    not known. The text of the error has a line for each part that is known. Pickling keeps the parts.
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
        super().__init__(message)
        self.message = message
        self.where = where
        self.expected = expected
        self.actual = actual
        self.fix = fix

    def __str__(self) -> str:
        parts = (f"  {_LABELS[name]}: {text}" for name, text in self.details.items())
        return "\n".join((self.message.rstrip("\n"), *parts))

    @property
    def details(self) -> dict[str, str]:
        """The parts besides the message that are not None, by the names of their fields."""
        parts = {"where": self.where, "expected": self.expected, "actual": self.actual, "fix": self.fix}
        return {name: text for name, text in parts.items() if text is not None}


class ConfigError(ArcticError):
    """A profile or a model's configuration is unknown or contradictory."""


class SourceError(ArcticError):
    """An upstream was dropped, recreated or rewritten, so its changes are unknown."""


class DataError(ArcticError):
    """Rows violate a declaration of the model, such as its key; nothing was written."""


class PlanError(ArcticError):
    """The model can't be maintained in the requested mode."""


class CommitConflict(ArcticError):
    """Another writer committed between observation and commit; the attempt left nothing behind."""


class CommitUnknown(ArcticError):
    """A commit was sent and its outcome is not known; its files must not be deleted before that is known."""


class SparkEnded(ArcticError):
    """The Spark that did the work has ended; commits stay, and the next run does the rest."""


class CatalogError(ArcticError):
    """The catalog or the warehouse can't be reached, read or written."""


class CorruptState(ArcticError):
    """Two tables, or a table and its metadata, contradict each other; to continue could lose rows."""
