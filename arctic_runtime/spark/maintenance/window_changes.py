"""Reads the change rows in windows of versions, for comparisons: combined to the net change of each key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.columns import Column, strip_change_columns
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.table_diff import DiffCost
from arctic_runtime.spark.changes.net_changes import write_net_changes
from arctic_runtime.spark.engine.statement import Sql, fill_statement
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, query_rows, read_appended
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import VersionWindow


def is_empty(window: VersionWindow) -> bool:
    """Whether it is known without Spark that a window has no change rows."""
    return window.window.is_empty or window.commits == ()


def says_before(session: TableSession, window: VersionWindow) -> bool:
    """Whether all change rows of a window say whether there was a row before, and which."""
    if is_empty(window):
        return True
    runs = None if window.commits is None else [RunSummary.decode(commit.summary) for commit in window.commits]
    # Repairs replace rows that violated the key, of which there were several.
    if runs is None or any(run.changelog or run.repaired for run in runs):
        return False
    config = session.model.config
    has_rest = len(strip_change_columns(window.columns)) > len(config.primary_key)
    # In a table of key columns only, the delete of a row that was not there looks like any other.
    return has_rest or config.sequence_by is None


def read_window(session: TableSession, window: VersionWindow) -> DataFrame:
    """Reads the change rows of a window, with the current columns."""
    is_whole = window.commits is not None
    return read_appended(session.spark(), session.model.table.changes, window.window, is_whole, window.old_column_names)


def read_net_changes(
    session: TableSession, window: VersionWindow, before: Sequence[Column], after: Sequence[Column]
) -> DataFrame:
    """Combines the change rows of each key in a window to one row, as `write_net_changes` says."""
    changes, config = read_window(session, window), session.model.config
    is_single = window.commits is not None and len(window.commits) == 1 and not window.keeps_all
    names = changes.columns
    placed = changes.select("*", F.col(COMMIT_ORDER).alias(COMMIT_ORDER))

    def write_query(rows: Sql) -> Sql:
        net = write_net_changes(rows, config.primary_key, names, before, after, is_single)
        return fill_statement("({net})", net=net)

    return query_rows(placed, write_query)


def measure_windows(windows: Sequence[VersionWindow]) -> DiffCost:
    """Returns the cost of reading windows, without seconds; rows and bytes are not known if commits are not kept."""
    commits = [() if is_empty(window) else window.commits for window in windows]
    known = [part for part in commits if part is not None]
    if len(known) < len(commits):
        return DiffCost(0)
    return DiffCost(0, *(sum(getattr(commit, part) for one in known for commit in one) for part in ("rows", "bytes")))
