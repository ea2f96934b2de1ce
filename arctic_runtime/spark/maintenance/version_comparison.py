"""Compares the rows of one table at two versions, by its change rows."""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.table_size import observe_size
from arctic_runtime.catalog.observation.tables import observe_columns
from arctic_runtime.model.columns import ACTION, CHANGE_COLUMNS, Column, compare_columns
from arctic_runtime.model.shape import DELETE
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table_diff import NO_ROWS, TableDiff
from arctic_runtime.model.version import Version, Window
from arctic_runtime.spark.maintenance.paired_rows import (
    AFTER,
    BEFORE,
    CommonColumn,
    ComparedColumns,
    DiffRequest,
    PairedRows,
    select_keys,
    summarize_pairs,
)
from arctic_runtime.spark.maintenance.window_changes import is_empty, measure_windows, read_net_changes, says_before
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    conform_frame,
    name_key_column,
    read_all_changes,
    read_folded_rows,
    select_newest_changes,
)
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import VersionWindow, find_window


def compare_versions(
    session: TableSession, start: int | str, end: int | str | None, request: DiffRequest | None = None
) -> TableDiff:
    """Compares the rows of the session's model at version `start` with those at version `end`, by its change rows.

    A version is given by its snapshot id or by a savepoint's name; None for `end` means the newest. If the change rows
    of the window do not say what rows were before, older ones are read too. Raises the errors of `find_window`.
    """
    begin = time.perf_counter()
    request = request or DiffRequest()
    model, window = session.model, find_window(session.reader, session.model, start, end)
    state = session.observe_state()
    columns = _match_versions(session, state, window.window)
    diff = TableDiff(
        model.table,
        model.table,
        NO_ROWS,
        None,
        (),
        columns.added,
        columns.removed,
        columns.retyped,
        versions=(str(start), str(window.window.end.snapshot if end is None else end)),
        key=model.config.primary_key,
        column_names=tuple(column.name for column in columns.common),
        reads_changes=True,
    )
    if not is_empty(window):
        pairs = PairedRows(_pair_versions(session, state, window, columns), columns.common, model.config.primary_key)
        diff = summarize_pairs(diff, pairs, request, session.reader.thresholds.reports)
    diff = replace(diff, other_rows=_count_rows_at_start(session, state, window.window, diff, request))
    return replace(diff, cost=replace(measure_windows([window]), seconds=time.perf_counter() - begin))


def _match_versions(session: TableSession, state: TableState, window: Window) -> ComparedColumns:
    """Compares the columns of two versions; a column that was renamed since has its current name."""
    assert state.changes is not None
    assert state.changes.head is not None
    assert window.start is not None
    known = observe_columns(session.reader, session.model.log)
    current = known.get(state.changes.head.snapshot, {})

    def list_at(version: Version) -> dict[int, Column]:
        columns = known.get(version.snapshot, current).items()
        return {
            number: replace(column, name=current.get(number, column).name)
            for number, column in columns
            if column.name not in CHANGE_COLUMNS
        }

    before, after = list_at(window.start), list_at(window.end)
    both = [number for number in after if number in before and number in current]
    # Rows of all versions are read with the current types, so values are compared in them.
    return ComparedColumns(
        tuple(current[number] for number in before if number in current),
        tuple(current[number] for number in after if number in current),
        tuple(CommonColumn(current[number].name, current[number].type, current[number].type) for number in both),
        compare_columns(before, after).add,
        tuple(column for number, column in before.items() if number not in after),
        tuple(
            (after[number].name, before[number].type, after[number].type)
            for number in after
            if number in before and before[number].type != after[number].type
        ),
    )


def _pair_versions(
    session: TableSession, state: TableState, window: VersionWindow, columns: ComparedColumns
) -> DataFrame:
    net = read_net_changes(session, window, columns.before, columns.after)
    if says_before(session, window):
        return net
    model, start = session.model, window.window.start
    assert start is not None
    key = model.config.primary_key
    names = [name_key_column(i) for i in range(len(as_key(key)))]
    older = select_keys(read_all_changes(session.spark(), model, state, start.snapshot), net.select(*names), key)
    alive = select_newest_changes(older, key, commits=2).where(F.col(ACTION) != DELETE)
    rows = conform_frame(alive, columns.before)
    before = rows.select(
        *[part.alias(name) for part, name in zip(as_key(key), names, strict=True)], F.struct("*").alias(BEFORE)
    )
    return net.drop(BEFORE).join(before, names, "left").select(*names, AFTER, BEFORE)


def _count_rows_at_start(
    session: TableSession, state: TableState, window: Window, diff: TableDiff, request: DiffRequest
) -> int | None:
    """Returns the number of rows at the start of a window; None if it is not needed and not known without a scan."""
    assert state.changes is not None
    assert window.start is not None
    newest = state.changes.newest
    if newest is not None and newest.sequence <= window.end.sequence:
        rows = observe_size(session.reader, session.model, session.model.table).rows
        if rows is not None:
            return rows - diff.counts["added"] + diff.counts["removed"]
    if not request.needs_rows:
        return None
    return read_folded_rows(session.spark(), session.model, state, window.start.snapshot).count()
