"""Which data files hold rows of some keys: all are read, whatever snapshots and deletion vectors say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.disk_files import DiskFile, DiskFiles
from arctic_runtime.catalog.observe import observe_savepoints, observe_snapshots
from arctic_runtime.effects import effect
from arctic_runtime.model.forgetting import TableToForget
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import FORGOTTEN
from arctic_runtime.model.savepoint import Savepoint
from arctic_runtime.model.state import ChangeTableState, TableState, built
from arctic_runtime.plan.forgetting import forgotten_from, outdated
from arctic_runtime.spark.tables.frames import COMMIT_ORDER, Keys, read_table
from arctic_runtime.spark.tables.table_session import TableSession


@dataclass(frozen=True)
class Scanned:
    """How many data files were read, how many that belong to no snapshot were removed, and what is left of rows."""

    files: int
    removed: int
    left: tuple[str, ...]


def scan(session: TableSession, keys: DataFrame, found: Keys) -> Scanned:
    """Reads the key's columns of all data files of a table's change table and base, and removes stray files with rows.

    Rows of forgotten keys may only be there as live rows, and as change rows only since they were forgotten.
    """
    model, state = session.model, session.observe()
    changes, base = built(state, model.table)
    assert changes.head is not None
    arrow = keys.toArrow()
    parts = [
        _Part(model.table.changes, changes.head.snapshot, int(changes.properties.get(FORGOTTEN, 0))),
        _Part(model.base, base.snapshot, 0),
    ]
    scanned = [_scan_part(session, state, part, arrow, found) for part in parts]
    removed = sum(of.removed for of in scanned)
    if state.aggregate_state is not None:
        removed += _remove_stray_state(session, model.table.totals, changes)
        scanned.append(Scanned(0, 0, _kept_snapshots(session, state, model.table.totals)))
    return Scanned(sum(of.files for of in scanned), removed, tuple(left for of in scanned for left in of.left))


@dataclass(frozen=True)
class _Part:
    """A table at a snapshot, of whose rows under forgotten keys none may be older than a sequence number."""

    table: TableName
    snapshot: int
    since: int


def _scan_part(session: TableSession, state: TableState, part: _Part, keys: object, found: Keys) -> Scanned:
    files = DiskFiles(session.reader, part.table, session.model.config.entity_key)
    on_disk = files.on_disk()
    rows = {of.path: count for of in on_disk if (count := files.rows_under(of.path, keys))}
    stray = [of for of in on_disk if of.path in rows and not of.is_referenced]
    removed = _remove(part, files, stray)
    own = files.of_snapshot(part.snapshot)
    held = sum(count for path, count in rows.items() if path in own)
    counts = _live(session, part, found) if held else (0, 0)
    left = [*_kept_snapshots(session, state, part.table, lambda of: not rows.keys() & files.of_snapshot(of))]
    left += [f"{held - counts[0]} deleted row(s) are in files of {part.table}"] if held > counts[0] else []
    left += [f"{counts[1]} change row(s) of {part.table} are older than the forgetting"] if counts[1] else []
    left += [f"{of.path} holds rows and may be written right now" for of in stray if of.path not in removed]
    return Scanned(len(on_disk), len(removed), tuple(left))


def _live(session: TableSession, part: _Part, found: Keys) -> tuple[int, int]:
    """How many rows a table has under the keys, and how many of them are older than they may be."""
    rows = found.select(read_table(session.spark(), part.table, part.snapshot), session.model.config.entity_key)
    all_rows, older = rows.agg(F.count(F.lit(1)), F.count_if(F.col(COMMIT_ORDER) < part.since)).collect()[0]
    return all_rows, older


def _remove(part: _Part, files: DiskFiles, stray: Iterable[DiskFile]) -> list[str]:
    """Removes stray files that are older than the newest commit: whoever writes them has lost against that."""
    snapshot = files.table.snapshot_by_id(part.snapshot)
    assert snapshot is not None
    return _remove_older(files, stray, snapshot.timestamp_ms)


def _remove_stray_state(session: TableSession, table: TableName, changes: ChangeTableState) -> int:
    """Removes old files of aggregate state that belong to no snapshot: they tell no keys."""
    files = DiskFiles(session.reader, table, ())
    stray = [of for of in files.on_disk() if not of.is_referenced]
    return len(_remove_older(files, stray, changes.commits[-1].at_ms))


def _remove_older(files: DiskFiles, stray: Iterable[DiskFile], at_ms: int) -> list[str]:
    """Removes the stray files that were written before a moment, and returns their addresses."""
    old = [of.path for of in stray if of.at_ms < at_ms]
    for path in old:
        effect("forget.remove_files", partial(files.remove, path), f"remove {path}")
    return old


def _kept_snapshots(
    session: TableSession, state: TableState, table: TableName, is_without: Callable[[int], bool] = lambda _: False
) -> tuple[str, ...]:
    """Older snapshots that are still there, which have the rows that they had, but for those that are `is_without`."""
    found = observe_snapshots(session.reader, table)
    if found is None:
        return ()
    gone, held = outdated(found, forgotten_from(found, state))
    older = [of for of in (*gone, *held) if not is_without(of)]
    return tuple(f"snapshot {of} of {table} is kept{' by a tag or a branch' if of in held else ''}" for of in older)


# Before anything is forgotten


def to_forget(session: TableSession, keys: DataFrame) -> TableToForget:
    """What of a table would be forgotten."""
    arrow = keys.toArrow()
    sizes: list[int] = []
    snapshots = 0
    for table in (session.model.table.changes, session.model.base):
        files = DiskFiles(session.reader, table, session.model.config.entity_key)
        sizes += [size for path, size in files.of_snapshot().items() if files.rows_under(path, arrow)]
        kept = observe_snapshots(session.reader, table)
        snapshots += len(outdated(kept, kept.lineage[-1].sequence)[0]) if kept is not None and kept.lineage else 0
    savepoints = holding_savepoints(session, keys)
    return TableToForget(session.model.table, arrow.num_rows, len(sizes), sum(sizes), snapshots, savepoints)


def holding_savepoints(session: TableSession, keys: DataFrame) -> tuple[str, ...]:
    """The names of savepoints whose files hold rows of some keys, deleted ones too."""
    model, arrow = session.model, keys.toArrow()
    found = []
    for of in observe_savepoints(session.reader, model):
        if _holds(session, of, arrow):
            found.append(of.name)
    return tuple(found)


def _holds(session: TableSession, savepoint: Savepoint, keys: object) -> bool:
    model = session.model
    for table in (model.table.changes, model.base):
        files = DiskFiles(session.reader, table, model.config.entity_key)
        snapshot = files.tagged(savepoint.name)
        paths = files.of_snapshot(snapshot) if snapshot is not None else {}
        if any(files.rows_under(path, keys) for path in paths):
            return True
    return False
