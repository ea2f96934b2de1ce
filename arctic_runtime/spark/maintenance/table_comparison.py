"""Compares the rows of two tables with the same key, or of one table at two versions, by its change rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.clones import observe_clone
from arctic_runtime.catalog.observation.table_size import TableSize, observe_size
from arctic_runtime.catalog.observation.tables import observe_columns
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import ACTION, CHANGE_COLUMNS, Column, compare_columns, find_column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.shape import DELETE
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table_diff import NO_ROWS, DiffCost, TableDiff
from arctic_runtime.model.version import Version, Window
from arctic_runtime.spark.engine.statement import quote_name
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
from arctic_runtime.spark.maintenance.window_changes import (
    is_empty,
    measure_windows,
    read_net_changes,
    read_window,
    says_before,
)
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    combine_all,
    conform_frame,
    list_frame_columns,
    name_key_column,
    read_all_changes,
    read_folded_rows,
    select_newest_changes,
)
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import VersionWindow, find_window


def compare_with_table(session: TableSession, other: TableName, request: DiffRequest | None = None) -> TableDiff:
    """Compares the table of the session's model with `other`, as readers see both now.

    If the model is a clone of `other`, only the change rows since the clone was made are read, as long as they are
    kept. If they do not say what rows were before, or if columns were removed or have other types, the rows of their
    keys are read as well; else all rows of both. Raises ConfigError if `other` lacks a column of the key.
    """
    begin = time.perf_counter()
    request = request or DiffRequest()
    comparison = _TableComparison(session, other, request)
    diff = comparison.compare_rows()
    assert diff.cost is not None
    return replace(diff, cost=replace(diff.cost, seconds=time.perf_counter() - begin))


def _match_columns(
    table: TableName, other: TableName, key: Sequence[str], own: Sequence[Column], others: Sequence[Column]
) -> ComparedColumns:
    for part in key:
        if find_column(tuple(others), part) is None:
            raise ConfigError(
                f"{table} can't be compared with {other}, which lacks a column of its primary key.",
                expected=", ".join(key),
                actual=", ".join(column.name for column in others),
                fix="compare tables with the same primary key",
            )
    matches = [(column, find_column(tuple(others), column.name)) for column in own]
    common = tuple(CommonColumn(column.name, same.type, column.type) for column, same in matches if same is not None)
    return ComparedColumns(
        tuple(others),
        tuple(own),
        common,
        tuple(column for column, same in matches if same is None),
        tuple(column for column in others if find_column(tuple(own), column.name) is None),
        tuple((column.name, column.before, column.after) for column in common if column.before != column.after),
    )


class _TableComparison:
    """The comparison of a model's table with another table."""

    def __init__(self, session: TableSession, other: TableName, request: DiffRequest) -> None:
        self._session, self._other, self._request = session, other, request
        spark, model = session.spark(), session.model
        self._model, self._key = model, model.config.primary_key
        self._own, self._others = (spark.table(quote_name(*table.parts)) for table in (model.table, other))
        own, others = list_frame_columns(self._own), list_frame_columns(self._others)
        self._columns = _match_columns(model.table, other, self._key, own, others)
        self._size = observe_size(session.reader, model, other)
        self._diff = TableDiff(
            model.table,
            other,
            NO_ROWS,
            self._size.rows,
            (),
            self._columns.added,
            self._columns.removed,
            self._columns.retyped,
            key=self._key,
            column_names=tuple(column.name for column in self._columns.common),
        )

    def compare_rows(self) -> TableDiff:
        """Compares the rows by the cheapest of the ways that give the exact difference; the cost has no seconds yet."""
        clone = self._find_clone()
        if clone is None:
            return self._compare_all()
        windows = [window for _, window in clone]
        diff = replace(self._diff, reads_changes=True, cost=measure_windows(windows))
        if all(map(is_empty, windows)):
            return self._with_rows(diff)
        if self._columns.has_less_or_other_types or not all(says_before(*side) for side in clone):
            return self._compare_changed_keys(diff, clone)
        return self._with_rows(self._summarize(diff, self._pair_changes(clone)))

    def _find_clone(self) -> list[tuple[TableSession, VersionWindow]] | None:
        """Returns the clone and its origin, each with the window since the clone was made.

        None if the model is no clone of the other table, or if changes since then are not kept.
        """
        session, clone = self._session, observe_clone(self._session.reader, self._model.table)
        if clone is None or clone.origin.model != self._other:
            return None
        origin = TableSession(replace(self._model, table=self._other), session.reader, session.spark, session.now)
        start = clone.origin.version.snapshot
        try:
            return [(side, find_window(side.reader, side.model, start, None)) for side in (session, origin)]
        except ConfigError:
            return None

    def _compare_all(self) -> TableDiff:
        """Compares all rows of both tables."""
        own = observe_size(self._session.reader, self._model, self._model.table)
        diff = replace(self._diff, cost=_measure_tables(own, self._size))
        return self._with_rows(self._summarize(diff, _pair_rows(self._own, self._others, self._key)))

    def _compare_changed_keys(self, diff: TableDiff, clone: Sequence[tuple[TableSession, VersionWindow]]) -> TableDiff:
        """Compares those rows of both tables whose keys occur in change rows since the clone was made."""
        one, another = (read_window(*side).select(*as_key(self._key)) for side in clone)
        keys = one.unionAll(another).distinct()
        own, others = (select_keys(rows, keys, self._key) for rows in (self._own, self._others))
        sizes = observe_size(self._session.reader, self._model, self._model.table), self._size
        diff = self._summarize(replace(diff, cost=_measure_tables(*sizes)), _pair_rows(own, others, self._key))
        return self._with_rows(diff)

    def _pair_changes(self, clone: Sequence[tuple[TableSession, VersionWindow]]) -> DataFrame:
        """Pairs the rows of both tables; reads only change rows.

        A key that only one of the tables has changed has in the other the row from before that change.
        """
        (own, own_window), (origin, origin_window) = clone
        before, after = self._columns.before, self._columns.after
        names = [name_key_column(i) for i in range(len(as_key(self._key)))]
        sides = []
        if not is_empty(own_window):
            sides.append(read_net_changes(own, own_window, before, after))
        if not is_empty(origin_window):
            net = read_net_changes(origin, origin_window, after, before)
            sides.append(net.select(*names, F.col(BEFORE).alias(AFTER), F.col(AFTER).alias(BEFORE)))
        if len(sides) == 1:
            return sides[0]
        mine, theirs = (frame.alias(name) for frame, name in zip(sides, ("mine", "theirs"), strict=True))
        on = combine_all([F.col(f"mine.{name}") == F.col(f"theirs.{name}") for name in names])
        is_mine, is_theirs = (F.col(f"{side}.{names[0]}").isNotNull() for side in ("mine", "theirs"))
        return mine.join(theirs, on, "full_outer").select(
            *[F.coalesce(f"mine.{name}", f"theirs.{name}").alias(name) for name in names],
            F.when(is_mine, F.col(f"mine.{AFTER}")).otherwise(F.col(f"theirs.{AFTER}")).alias(AFTER),
            F.when(is_theirs, F.col(f"theirs.{BEFORE}")).otherwise(F.col(f"mine.{BEFORE}")).alias(BEFORE),
        )

    def _summarize(self, diff: TableDiff, rows: DataFrame) -> TableDiff:
        pairs = PairedRows(rows, self._columns.common, self._key)
        return summarize_pairs(diff, pairs, self._request, self._session.reader.thresholds.reports)

    def _with_rows(self, diff: TableDiff) -> TableDiff:
        """Adds the number of rows of the other table, if it is needed and the catalog does not know it."""
        is_needed = diff.other_rows is None and self._request.needs_rows
        return replace(diff, other_rows=self._others.count()) if is_needed else diff


def _pair_rows(own: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
    """Joins the rows of both tables on the key, each as a struct that is null if its table lacks the row."""
    sides = [
        rows.select(*[part.alias(f"{side}_{i}") for i, part in enumerate(as_key(key))], F.struct("*").alias(side))
        for rows, side in ((own, AFTER), (others, BEFORE))
    ]
    count = len(as_key(key))
    on = combine_all([F.col(f"{AFTER}_{i}") == F.col(f"{BEFORE}_{i}") for i in range(count)])
    names = [F.coalesce(f"{AFTER}_{i}", f"{BEFORE}_{i}").alias(name_key_column(i)) for i in range(count)]
    return sides[0].join(sides[1], on, "full_outer").select(*names, AFTER, BEFORE)


def _measure_tables(own: TableSize, other: TableSize) -> DiffCost:
    return DiffCost(0, _add(own.stored_rows, other.stored_rows), _add(own.bytes, other.bytes))


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


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
