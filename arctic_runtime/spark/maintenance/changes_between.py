"""Reads the change rows between two versions of a table."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.model.files.expiry import read_trimmed_age
from arctic_runtime.model.version import Window
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, read_appended
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import find_version


def read_changes_between(session: TableSession, start: int | str, end: int | str, limit: int) -> list[dict[str, Any]]:
    """Reads the change rows after version `start` and up to `end`, as one dictionary per row, in commit order.

    Reads at most `limit` rows. Raises the same errors as `frame_changes_between`.
    """
    rows = frame_changes_between(session, start, end)
    return [row.asDict(recursive=True) for row in rows.limit(limit).collect()]


def frame_changes_between(session: TableSession, start: int | str | None, end: int | str | None) -> DataFrame:
    """Returns a DataFrame of the change rows after version `start` and up to `end`, in commit order.

    A version is given by its number or by a savepoint's name. None for `start` means the oldest change row that is
    kept, None for `end` the newest version. Raises ConfigError if there is no such version, if `start` is newer than
    `end`, or if some change rows between them have been deleted.
    """
    state = session.observe_state()
    commits = state.changes.commits if state.changes else ()
    if end is None and not commits:
        raise ConfigError(
            f"{session.model.table} has no versions yet.",
            fix="refresh it",
        )
    last = commits[-1] if end is None else find_version(session, commits, str(end))
    first = None if start is None else find_version(session, commits, str(start))
    if first is not None and first.version.sequence > last.version.sequence:
        raise ConfigError(
            f"{session.model.table}: version {start} is newer than version {end}; give the older version first"
        )
    is_whole = last in commits and (first is None or first in commits)
    trimmed = read_trimmed_age(state.changes.properties).sequence if state.changes else 0
    if first is not None and not is_whole and first.version.sequence < trimmed:
        raise ConfigError(
            f"{session.model.table}: some changes since version {start} have been deleted.",
            fix="give a later version; `retention: changes` sets how long changes are kept",
        )
    formerly = state.changes.formerly if state.changes else {}
    log = session.model.table.changes
    window = Window(str(log), None if first is None else first.version, last.version)
    rows = read_appended(session.spark(), log, window, is_whole, formerly)
    return rows.orderBy(F.col(COMMIT_ORDER), F.col(SEQUENCE))
