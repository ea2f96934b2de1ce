"""Searches the data files of a table for rows of given keys, also in files of old snapshots and in deleted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_savepoints, observe_snapshots
from arctic_runtime.catalog.storage.disk_files import DiskFile, DiskFiles
from arctic_runtime.effects import perform_effect
from arctic_runtime.model.forgetting import TableToForget
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import FORGOTTEN
from arctic_runtime.model.state import ChangeTableState, TableState, require_built
from arctic_runtime.plan.forgetting import find_forgotten_sequence, split_outdated_snapshots
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, Keys, read_table
from arctic_runtime.spark.tables.table_session import TableSession


@dataclass(frozen=True)
class Scanned:
    """Result of a scan: the number of data files that were read, and of files that were removed.

    `left` describes for people the rows that should no longer exist.
    """

    files: int
    removed: int
    left: tuple[str, ...]


def scan_files(session: TableSession, keys: DataFrame, lookup: Keys) -> Scanned:
    """Searches all files of a model's change table and base table for rows of `keys`; reads only the key columns.

    A file with such rows that belongs to no snapshot is removed if it is old enough. The result describes as left: rows
    that are deleted or only in old snapshots, and change rows from before the forgetting. Current rows of the keys are
    allowed. `lookup` are the same keys, prepared for lookups.
    """
    model, state = session.model, session.observe_state()
    changes, base = require_built(state, model.table)
    assert changes.head is not None
    arrow = keys.toArrow()
    parts = [
        _TableScan(model.table.changes, changes.head.snapshot, int(changes.properties.get(FORGOTTEN, 0))),
        _TableScan(model.base, base.snapshot, 0),
    ]
    scanned = [_scan_part(session, state, part, arrow, lookup) for part in parts]
    removed = sum(scanned_part.removed for scanned_part in scanned)
    if state.aggregate_state is not None:
        removed += _remove_stray_state(session, model.table.totals, changes)
        scanned.append(Scanned(0, 0, _list_remaining_snapshots(session, state, model.table.totals)))
    return Scanned(
        sum(scanned_part.files for scanned_part in scanned),
        removed,
        tuple(left for scanned_part in scanned for left in scanned_part.left),
    )


@dataclass(frozen=True)
class _TableScan:
    """A table to scan at a snapshot; commits before the sequence number `since` must have no rows of forgotten keys."""

    table: TableName
    snapshot: int
    since: int


def _scan_part(session: TableSession, state: TableState, part: _TableScan, keys: object, lookup: Keys) -> Scanned:
    files = DiskFiles(session.reader, part.table, session.model.config.entity_key)
    on_disk = files.on_disk()
    rows = {file.path: count for file in on_disk if (count := files.count_rows_under(file.path, keys))}
    stray = [file for file in on_disk if file.path in rows and not file.is_referenced]
    removed = _remove_stray_files(part, files, stray)
    own = files.list_snapshot_files(part.snapshot)
    rows_referenced = sum(count for path, count in rows.items() if path in own)
    counts = _count_live_rows(session, part, lookup) if rows_referenced else (0, 0)
    left = [
        *_list_remaining_snapshots(
            session, state, part.table, lambda file: not rows.keys() & files.list_snapshot_files(file)
        )
    ]
    left += (
        [f"{rows_referenced - counts[0]} deleted row(s) are in files of {part.table}"]
        if rows_referenced > counts[0]
        else []
    )
    left += [f"{counts[1]} change row(s) of {part.table} are older than the forgetting"] if counts[1] else []
    left += [f"{file.path} holds rows and may be written right now" for file in stray if file.path not in removed]
    return Scanned(len(on_disk), len(removed), tuple(left))


def _count_live_rows(session: TableSession, part: _TableScan, lookup: Keys) -> tuple[int, int]:
    """Counts the rows of `lookup` at the snapshot of `part`, and those of them from commits before `part.since`."""
    rows = lookup.select_rows(read_table(session.spark(), part.table, part.snapshot), session.model.config.entity_key)
    all_rows, older = rows.agg(F.count(F.lit(1)), F.count_if(F.col(COMMIT_ORDER) < part.since)).collect()[0]
    return all_rows, older


def _remove_stray_files(part: _TableScan, files: DiskFiles, stray: Iterable[DiskFile]) -> list[str]:
    """Removes the `stray` files, which belong to no snapshot, if they are older than the newest commit.

    The writers of such old files can't commit them any more. Returns the paths of the removed files.
    """
    snapshot = files.table.snapshot_by_id(part.snapshot)
    assert snapshot is not None
    return _remove_older(files, stray, snapshot.timestamp_ms)


def _remove_stray_state(session: TableSession, table: TableName, changes: ChangeTableState) -> int:
    """Removes files of `table`, the aggregate state, that belong to no snapshot and are older than the newest commit.

    Returns the number of removed files. These can't be searched for keys, so none of them is kept.
    """
    files = DiskFiles(session.reader, table, ())
    stray = [file for file in files.on_disk() if not file.is_referenced]
    return len(_remove_older(files, stray, changes.commits[-1].at_ms))


def _remove_older(files: DiskFiles, stray: Iterable[DiskFile], at_ms: int) -> list[str]:
    """Removes the `stray` files that were written before `at_ms`, in epoch milliseconds; returns their paths."""
    old = [file.path for file in stray if file.at_ms < at_ms]
    for path in old:
        perform_effect("forget.remove_files", partial(files.remove_file, path), f"remove {path}")
    return old


def _list_remaining_snapshots(
    session: TableSession, state: TableState, table: TableName, is_without: Callable[[int], bool] = lambda _: False
) -> tuple[str, ...]:
    """Describes, for people, the snapshots of `table` from before the forgetting that still exist.

    `is_without` returns for a snapshot id whether the snapshot has no forgotten rows and can be left out.
    """
    snapshots = observe_snapshots(session.reader, table)
    if snapshots is None:
        return ()
    gone, protected = split_outdated_snapshots(snapshots, find_forgotten_sequence(snapshots, state))
    older = [snapshot_id for snapshot_id in (*gone, *protected) if not is_without(snapshot_id)]
    return tuple(
        f"snapshot {snapshot_id} of {table} is kept{' by a tag or a branch' if snapshot_id in protected else ''}"
        for snapshot_id in older
    )


# Before anything is forgotten


def plan_table(session: TableSession, keys: DataFrame) -> TableToForget:
    """Counts the data of a model that would be removed: keys, their change rows, files with such rows, and snapshots.

    Also lists the savepoints whose files contain such rows.
    """
    arrow = keys.toArrow()
    sizes: list[int] = []
    snapshots = change_rows = 0
    for table in (session.model.table.changes, session.model.base):
        files = DiskFiles(session.reader, table, session.model.config.entity_key)
        listed = files.list_snapshot_files()
        counts = {path: count for path in listed if (count := files.count_rows_under(path, arrow))}
        sizes += [listed[path] for path in counts]
        change_rows += sum(counts.values()) if table == session.model.table.changes else 0
        snapshots_there = observe_snapshots(session.reader, table)
        snapshots += (
            len(split_outdated_snapshots(snapshots_there, snapshots_there.lineage[-1].sequence)[0])
            if snapshots_there is not None and snapshots_there.lineage
            else 0
        )
    savepoints = list_holding_savepoints(session, keys)
    return TableToForget(
        session.model.table, arrow.num_rows, change_rows, len(sizes), sum(sizes), snapshots, savepoints
    )


def list_holding_savepoints(session: TableSession, keys: DataFrame) -> tuple[str, ...]:
    """Returns the names of savepoints whose files contain rows of `keys`, including rows marked as deleted.

    A build that died after its publication may have set its cut in the base table alone; such cuts are included.
    """
    model, arrow = session.model, keys.toArrow()
    base = observe_snapshots(session.reader, model.base)
    savepoints = [savepoint.name for savepoint in observe_savepoints(session.reader, model)]
    names = dict.fromkeys([*savepoints, *sorted(base.cut_tags if base is not None else ())])
    return tuple(name for name in names if _has_rows(session, name, arrow))


def _has_rows(session: TableSession, savepoint: str, keys: object) -> bool:
    model = session.model
    for table in (model.table.changes, model.base):
        files = DiskFiles(session.reader, table, model.config.entity_key)
        snapshot = files.find_tagged_snapshot(savepoint)
        paths = files.list_snapshot_files(snapshot) if snapshot is not None else {}
        if any(files.count_rows_under(path, keys) for path in paths):
            return True
    return False
