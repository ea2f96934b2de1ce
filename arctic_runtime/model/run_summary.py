"""What the newest run of a table recorded in the summary of its commit."""

from __future__ import annotations

from collections.abc import Mapping

from arctic_runtime.model.properties import MODE, OFFSETS, RUN
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.version import Version, decode_versions

SCHEMA_ONLY = "schema-only"


def last_load(changes: ChangeTableState | None) -> Commit | None:
    """The newest run's commit that loaded data; None before the first."""
    commits = changes.commits if changes else ()
    runs = (commit for commit in reversed(commits) if RUN in commit.summary)
    return next((commit for commit in runs if commit.summary.get(MODE) != SCHEMA_ONLY), None)


def last_run(changes: ChangeTableState | None) -> Mapping[str, str] | None:
    """The summary of the newest run that loaded data; None before the first."""
    last = last_load(changes)
    return last.summary if last else None


def said_again(summary: Mapping[str, str] | None, *keys: str) -> dict[str, str]:
    """What a run told under these keys, as far as it did, for a later one to say as well."""
    return {key: summary[key] for key in keys if key in summary} if summary else {}


def consumed(summary: Mapping[str, str] | None) -> dict[str, Version]:
    """The offsets that a run recorded."""
    return decode_versions(summary.get(OFFSETS)) if summary else {}
