"""Reads the change rows between two versions of a table."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, read_appended
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import find_window


def read_changes_between(session: TableSession, start: int | str, end: int | str, limit: int) -> list[dict[str, Any]]:
    """Reads the change rows after version `start` and up to `end`, as one dictionary per row, in commit order.

    A version is given by its snapshot id or by a savepoint's name. Reads at most `limit` rows. Timestamps with a zone
    have one, unlike those that Spark collects. Raises the same errors as `frame_changes_between`.
    """
    rows = frame_changes_between(session, start, end).limit(limit).toArrow()
    read: list[dict[str, Any]] = rows.to_pylist(maps_as_pydicts="strict")
    return read


def frame_changes_between(session: TableSession, start: int | str | None, end: int | str | None) -> DataFrame:
    """Returns a DataFrame of the change rows after version `start` and up to `end`, in commit order.

    A version is given by its snapshot id or by a savepoint's name. None for `start` means the oldest change row that is
    kept, None for `end` the newest version. Raises ConfigError if there is no such version, if `start` is newer than
    `end`, or if some change rows between them have been deleted.
    """
    limits = find_window(session.reader, session.model, start, end)
    rows = read_appended(
        session.spark(), session.model.table.changes, limits.window, limits.commits is not None, limits.old_column_names
    )
    return rows.orderBy(F.col(COMMIT_ORDER), F.col(SEQUENCE))
