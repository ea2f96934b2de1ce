"""Reads the change rows in windows of versions: in commit order, or combined to the net change of each key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, Column, strip_change_columns
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import DELETE, UPDATE, is_named
from arctic_runtime.model.table_diff import DiffCost
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_text,
    type_name,
)
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, NULL, name_key_column, query_rows, read_appended
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import VersionWindow, find_window


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


def read_changes_between(
    session: TableSession, start: int | str | None, end: int | str | None, limit: int
) -> list[dict[str, Any]]:
    """Reads the change rows of `frame_changes_between`, at most `limit`, as one dictionary per row.

    Timestamps with a zone have one, unlike those that Spark collects.
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


def write_net_changes(
    changes: Sql,
    key: Sequence[str],
    names: Collection[str],
    before: Sequence[Column],
    after: Sequence[Column],
    is_single: bool,
) -> Sql:
    """Builds the query of the net changes of the change rows in the relation `changes`, which has the columns `names`.

    The result has one row per key: the key's columns, named as by `as_key`; `before` and `after`, structs of the
    columns given for them, which are null without a row. Columns that `changes` lacks are null. `is_single` promises at
    most one change row of each key. A change row without `_before` has no row before, so rows of `changelog: input`
    can't be read so.
    """
    keys = [alias_as(quote_name(part), name_key_column(place)) for place, part in enumerate(key)]
    keys = keys or [alias_as(Sql("true"), name_key_column(0))]
    own = join_parts(quote_name(name_key_column(place)) for place in range(len(keys)))
    images = fill_statement(
        """SELECT {keys}, struct({commit} AS commit, {seq} AS seq) AS position,
             struct(CASE WHEN {had_row} THEN {before} END AS image) AS oldest,
             struct(CASE WHEN {action} <> {delete} THEN {after} END AS image) AS newest
           FROM {changes}""",
        keys=join_parts(keys),
        commit=quote_name(COMMIT_ORDER),
        seq=quote_name(SEQUENCE),
        action=quote_name(ACTION),
        delete=quote_text(DELETE),
        had_row=_write_had_row(names),
        before=_write_image(before, key, names, is_before=True),
        after=_write_image(after, key, names, is_before=False),
        changes=changes,
    )
    if not is_single:
        images = fill_statement(
            """SELECT {own}, min_by(oldest, position) AS oldest, max_by(newest, position) AS newest
               FROM ({images}) GROUP BY {own}""",
            own=own,
            images=images,
        )
    return fill_statement(
        "SELECT {own}, oldest.image AS before, newest.image AS after FROM ({images})", own=own, images=images
    )


def _write_image(columns: Sequence[Column], key: Sequence[str], names: Collection[str], is_before: bool) -> Sql:
    """Builds the struct of a row, from `_before` if `is_before`, else from the columns of the change row."""
    values = []
    for column in columns:
        own = quote_name(BEFORE, column.name) if is_before and not is_named(column.name, key) else None
        value = quote_name(column.name) if own is None else own
        if not is_named(column.name, tuple(names)):
            value = fill_statement("CAST({null} AS {kind})", null=NULL, kind=type_name(column.type))
        values.append(alias_as(value, column.name))
    return fill_statement("struct({values})", values=join_parts(values))


def _write_had_row(names: Collection[str]) -> Sql:
    """Builds the condition that there was a row before a change row; a delete may be of a row that was not there."""
    changed = fill_statement(
        "{action} IN ({update}, {delete})",
        action=quote_name(ACTION),
        update=quote_text(UPDATE),
        delete=quote_text(DELETE),
    )
    if not is_named(BEFORE, tuple(names)):
        return changed
    return fill_statement("{changed} AND {before} IS NOT NULL", changed=changed, before=quote_name(BEFORE))
