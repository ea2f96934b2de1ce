"""Change rows between two versions of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.model.state import Commit
from arctic_runtime.spark.frames import COMMIT_ORDER, read_appended
from arctic_runtime.spark.run import Run


def changes_between(run: Run, start: int, end: int, limit: int) -> list[dict[str, Any]]:
    """Change rows after version `start` and up to `end`, in order, at most `limit` of them.

    Raises ConfigError where a version is not one of the table, or they stand the wrong way round.
    """
    state = run.observe()
    commits = state.changes.commits if state.changes else ()
    first, last = (known_version(run, commits, version) for version in (start, end))
    if first.version.sequence > last.version.sequence:
        raise ConfigError(f"{run.model.table}: version {start} is newer than {end}; give the older one first")
    rows = read_appended(run.session(), run.model.table.changes, first.version, last.version)
    if first == last:
        return []
    ordered = rows.orderBy(F.col(COMMIT_ORDER), F.col(SEQUENCE)).limit(limit)
    return [row.asDict(recursive=True) for row in ordered.collect()]


def known_version(run: Run, commits: Iterable[Commit], version: int) -> Commit:
    """The one of the commits that made a version; raises ConfigError where none of them did."""
    for commit in commits:
        if commit.version.snapshot == version:
            return commit
    raise ConfigError(
        f"{run.model.table} has no version {version}.\n"
        f"  what to do: `arctic history {run.model.table.name}` shows those that are kept"
    )
