"""Purges rows: deletes change rows, and rewrites files so that they do not contain rows marked as deleted any more.

Only files with deleted rows are rewritten, and row lineage is preserved, as by any compaction. So readers of changes
and their offsets are not affected. Afterwards all data files are searched for such rows, also those of old snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_savepoints, observe_snapshots
from arctic_runtime.catalog.storage.disk_files import DiskFile, DiskFiles
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.files.expiry import Age, format_ages, read_trimmed_age
from arctic_runtime.model.forgetting import TableToForget
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMPACTED_UNTIL, FORGOTTEN, FORGOTTEN_UNTIL
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.state import ChangeTableState, TableState, require_built
from arctic_runtime.model.version import Version
from arctic_runtime.plan.forgetting import find_forgotten_sequence, split_outdated_snapshots
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, quote_number, quote_text
from arctic_runtime.spark.tables.commit import (
    build_base_summary,
    build_summary_settings,
    commit_summary,
    perform_statement,
    set_properties,
    swap_in,
)
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.delete import TARGET, RowMatch, build_key_conditions, delete_matching
from arctic_runtime.spark.tables.file_rewrite import ANY_COUNT, ANY_SIZE, sort_order
from arctic_runtime.spark.tables.rows.bounds import EVERYWHERE
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, Keys, read_table
from arctic_runtime.spark.tables.table_session import TableSession


@dataclass(frozen=True)
class Purged:
    """The change rows to purge: those of `keys` in commits before the sequence number `since`.

    All of them are in commits up to `until`; so a reader of changes that has not read this commit yet may miss rows.
    """

    keys: Keys
    since: int
    until: Age


@dataclass(frozen=True)
class Rewritten:
    """Number of rewritten files, and the sum of their bytes."""

    files: int
    bytes: int

    def __add__(self, other: Rewritten) -> Rewritten:
        return Rewritten(self.files + other.files, self.bytes + other.bytes)


def purge_changes(purged: Purged, context: Context) -> None:
    """Deletes the change rows that `purged` describes, in one commit.

    Before that, sets properties of the change table by which a reader that has not read these change rows notices that
    they are missing. Raises CommitConflict if another writer committed meanwhile.
    """
    changes, table = context.state.changes, context.model.table.changes
    assert changes is not None
    assert changes.head is not None
    before = read_trimmed_age(changes.properties)
    newest_read = max(purged.until, before, key=lambda age: age.sequence)
    until = {COMPACTED_UNTIL: format_ages([newest_read])}
    is_whole = before.sequence == int(changes.properties.get(FORGOTTEN_UNTIL, 0))
    only = {FORGOTTEN_UNTIL: str(newest_read.sequence)} if is_whole else {}
    older = fill_statement(
        "{place} < {since}", place=quote_name(TARGET, COMMIT_ORDER), since=quote_number(purged.since)
    )
    newest = max(int(changes.properties.get(FORGOTTEN, 0)), purged.since)
    set_properties("forget.mark", context.spark, table, {**until, **only, FORGOTTEN: str(newest)})

    def write_delete(branch: tuple[str, ...]) -> None:
        with override_settings(context.spark, build_summary_settings(until)):
            on, where = build_key_conditions(context.model.config.entity_key), [purged.keys.near, older]
            delete_matching("forget.delete", context, branch, RowMatch(purged.keys.rows, on, where))

    swap_in(context.attempt, table, changes.head.snapshot, write_delete)


def rewrite_changes(near: Sql, context: Context) -> Rewritten:
    """Rewrites the files of the change table that contain deleted rows, without these rows.

    Considers only files that may have rows that meet the SQL condition `near`. Raises CommitConflict if another writer
    committed meanwhile.
    """
    changes, table = context.state.changes, context.model.table.changes
    assert changes is not None
    assert changes.head is not None

    def write_rewrite(branch: tuple[str, ...]) -> Rewritten:
        return _rewrite_deleted(context, table, branch, near)

    return swap_in(context.attempt, table, changes.head.snapshot, write_rewrite)


def purge_base(near: Sql, context: Context) -> Rewritten:
    """Rewrites the files of the base table that contain deleted rows, without these rows.

    Considers only files that may have rows that meet the SQL condition `near`. Raises CommitConflict if another writer
    committed meanwhile.
    """
    base, table = context.state.base, context.model.base
    assert base is not None
    assert base.merged is not None
    merged = build_base_summary(base.merged, context.state.changes)

    def write_rewrite(branch: tuple[str, ...]) -> Rewritten:
        done = _rewrite_deleted(context, table, branch, near)
        commit_summary("forget.record", context.spark, branch, merged)
        return done

    return swap_in(context.attempt, table, base.snapshot, write_rewrite)


def record_run(context: Context) -> None:
    """Commits the newest run's summary to the change table again, without rows, so that earlier snapshots can expire.

    Raises CommitConflict if another writer committed meanwhile.
    """
    changes = context.state.changes
    assert changes is not None
    assert changes.head is not None
    last = find_last_run(changes)
    assert last is not None
    record = last.to_repeat("full", "FORGOTTEN").encode()
    table, spark = context.model.table.changes, context.spark
    swap_in(
        context.attempt,
        table,
        changes.head.snapshot,
        lambda branch: commit_summary("forget.record", spark, branch, record),
    )


def record_merged(merged: Version, context: Context) -> None:
    """Records, in a commit without rows, that changes up to the version `merged` are merged into the base table.

    Raises CommitConflict if another writer committed meanwhile.
    """
    base, table, spark = context.state.base, context.model.base, context.spark
    assert base is not None
    record = build_base_summary(merged, context.state.changes)
    swap_in(
        context.attempt, table, base.snapshot, lambda branch: commit_summary("forget.record", spark, branch, record)
    )


def _rewrite_deleted(context: Context, table: TableName, branch: Sequence[str], near: Sql) -> Rewritten:
    """Rewrites, on a branch, the files of `table` that contain deleted rows, without these rows.

    Considers only files that may have rows that meet the SQL condition `near`. Raises CommitConflict if some files
    could not be rewritten.
    """
    is_sorted = table == context.model.base and bool(context.model.config.sort_key)
    order = fill_statement(", strategy => 'sort', sort_order => {o}", o=quote_text(sort_order(context.model)))
    options = {
        "delete-file-threshold": "1",
        "min-input-files": str(ANY_COUNT),
        "min-file-size-bytes": "0",
        "max-file-size-bytes": str(ANY_SIZE),
        "delete-ratio-threshold": "1.0",
    }
    call = fill_statement(
        "CALL {catalog}.system.rewrite_data_files(table => {table}{sorting}{where}, options => map({options}), "
        "branch => {branch})",
        catalog=quote_name(table.catalog),
        table=quote_text(quote_name(*table.parts)),
        sorting=order if is_sorted else Sql(""),
        where=Sql("") if near == EVERYWHERE else fill_statement(", where => {near}", near=quote_text(near)),
        options=join_parts(part for pair in options.items() for part in map(quote_text, pair)),
        branch=quote_text(branch[-1].removeprefix("branch_")),
    )
    what = f"rewrite files of {table} that hold forgotten rows"
    (done,) = perform_effect("forget.rewrite", lambda: context.spark.sql(call).collect(), what, SPARK)
    if done["failed_data_files_count"]:
        raise CommitConflict(f"{table}: some files could not be rewritten.", fix="run `arctic forget` again")
    return Rewritten(done["rewritten_data_files_count"], done["rewritten_bytes_count"])


def rewrite_manifests(spark: SparkSession, table: TableName) -> None:
    """Rewrites the manifests of a table, since they still list deleted files and the bounds of their values."""
    call = fill_statement(
        "CALL {catalog}.system.rewrite_manifests(table => {table}, use_caching => false)",
        catalog=quote_name(table.catalog),
        table=quote_text(quote_name(*table.parts)),
    )
    perform_statement("forget.manifests", spark, call)


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


def count_data_to_forget(session: TableSession, keys: DataFrame) -> TableToForget:
    """Counts the data that `arctic forget` would remove: keys, their change rows, files with these, and snapshots.

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
    parts = (model.table.changes, model.base)
    return tuple(name for name in names if has_tagged_rows(session, [(table, name) for table in parts], arrow))


def has_tagged_rows(session: TableSession, tags: Iterable[tuple[TableName, str]], keys: object) -> bool:
    """Whether files of a tagged snapshot contain rows of `keys`, an Arrow table, also rows that are marked as deleted.

    Each of `tags` is a table of the session's model that has rows of the key, with the name of a tag.
    """
    for table, tag in tags:
        files = DiskFiles(session.reader, table, session.model.config.entity_key)
        snapshot = files.find_tagged_snapshot(tag)
        paths = files.list_snapshot_files(snapshot) if snapshot is not None else {}
        if any(files.count_rows_under(path, keys) for path in paths):
            return True
    return False
