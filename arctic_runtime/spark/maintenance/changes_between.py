"""Change rows between two versions of a table."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.model.files.expiry import read_trimmed_age
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, read_appended
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import find_version


def read_changes_between(session: TableSession, start: int | str, end: int | str, limit: int) -> list[dict[str, Any]]:
    """Change rows after version `start` and up to `end`, in order, at most `limit` of them.

    A version is given by its number or by a savepoint's name. Raises ConfigError if a version is not one of the
    table, or they stand the wrong way round.
    """
    state = session.observe_state()
    commits = state.changes.commits if state.changes else ()
    first, last = (find_version(session, commits, str(version)) for version in (start, end))
    if first.version.sequence > last.version.sequence:
        raise ConfigError(
            f"{session.model.table}: version {start} is newer than version {end}; give the older version first"
        )
    is_whole = all(commit in commits for commit in (first, last))
    if not is_whole and state.changes and first.version.sequence < read_trimmed_age(state.changes.properties).sequence:
        raise ConfigError(
            f"{session.model.table}: some changes since version {start} have been deleted.",
            fix="give a later version; `retention: changes` sets how long changes are kept",
        )
    formerly = state.changes.formerly if state.changes else {}
    rows = read_appended(session.spark(), session.model.table.changes, first.version, last.version, is_whole, formerly)
    if first == last:
        return []
    ordered = rows.orderBy(F.col(COMMIT_ORDER), F.col(SEQUENCE)).limit(limit)
    return [row.asDict(recursive=True) for row in ordered.collect()]
