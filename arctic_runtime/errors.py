"""Every error that dbt-arctic raises on purpose.

ArcticError
├── ConfigError       what the user wrote can't be used; nothing was read or written
├── SourceError       an upstream can't be read as it must be (dropped, recreated, rewritten)
├── DataError         rows break what was declared of them (null or duplicate keys); nothing was written
├── PlanError         the model can't be maintained in the way that was asked for
├── CommitConflict    somebody else committed first: observe again, then retry
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


class ArcticError(Exception):
    """Base of all errors below; its text says what, where, expected, found, and what to do next."""


class ConfigError(ArcticError):
    """A profile or a model's configuration is unknown or contradictory."""


class SourceError(ArcticError):
    """An upstream was dropped, recreated or rewritten, so its changes are unknown."""


class DataError(ArcticError):
    """Rows break what the model declares of them; nothing was written."""


class PlanError(ArcticError):
    """The model can't be maintained in the way that was asked for."""


class CommitConflict(ArcticError):
    """Another writer committed between observation and commit; the attempt left nothing behind."""


class CommitUnknown(ArcticError):
    """A commit was sent and its outcome is not known; its files must stay until it is."""


class SparkEnded(ArcticError):
    """The Spark that did the work is gone; what was committed stays, and the next run does the rest."""


class CatalogError(ArcticError):
    """The catalog or the warehouse can't be reached, read or written."""


class CorruptState(ArcticError):
    """Two places that must agree do not; continuing could lose rows."""
