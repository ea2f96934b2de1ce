"""Observes tables of other writers: those that models can adopt, landing tables, and the rows that deletes removed.

Only metadata and manifests are read, no data file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.columns import UNSORTED, list_columns
from arctic_runtime.catalog.observation.manifests import (
    find_only_path,
    get_referenced_path,
    get_sequence,
    list_manifests,
    read_entries,
)
from arctic_runtime.catalog.observation.tables import observe_snapshots
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.baseline import PlainTable
from arctic_runtime.model.files.expiry import AppendedFile, LandingState, read_ages, read_trimmed_age
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMMIT_TIMES, KIND
from arctic_runtime.model.state import Removed, SourceState
from arctic_runtime.model.version import Version

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def observe_plain_table(reader: CatalogReader, name: TableName) -> PlainTable | None:
    """Returns a table at its newest snapshot; None if there is no such table, or if it has no snapshot."""
    table = find_table(reader, name)
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None:
        return None
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return PlainTable(
        name=name,
        snapshot=snapshot.snapshot_id,
        at_ms=snapshot.timestamp_ms,
        rows=int(summary.get("total-records", 0)),
        bytes=int(summary.get("total-files-size", 0)),
        columns=list_columns(table.schema()),
        format_version=table.format_version,
        spec=table.metadata.default_spec_id,
        is_sorted=table.metadata.default_sort_order_id != UNSORTED,
        properties=dict(table.properties),
    )


def observe_landing(reader: CatalogReader, name: TableName) -> LandingState:
    """Returns the state of a landing table: its live data files, its snapshots and the record of deleted files.

    Raises ConfigError if there is no such table, if it is one of arctic's own, or if its format version is 1, in which
    commits have no order.
    """
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

    try:
        table = reader.load_table(name.schema, name.name)
    except NoSuchTableError:
        raise ConfigError(f"{name}: there is no such table in the catalog") from None
    if KIND in table.properties or table.format_version < 2:
        kind_found = f"a table of arctic ({table.properties[KIND]})" if KIND in table.properties else "format version 1"
        raise ConfigError(
            f"{name}: its rows can't expire as those of a landing table.",
            expected="a table of format version 2 or newer that other programs append to",
            actual=kind_found,
        )
    snapshots, head = observe_snapshots(reader, name), table.current_snapshot()
    assert snapshots is not None
    files = [
        AppendedFile(file.file_path, get_sequence(entry, manifest), file.record_count, file.file_size_in_bytes)
        for manifest in (list_manifests(table, head) if head else ())
        if manifest.content == ManifestContent.DATA
        for entry in read_entries(table, manifest)
        if entry.status != ManifestEntryStatus.DELETED and (file := entry.data_file)
    ]
    return LandingState(
        name,
        str(table.metadata.table_uuid),
        tuple(files),
        snapshots,
        read_ages(table.properties.get(COMMIT_TIMES)),
        read_trimmed_age(table.properties),
    )


def with_removals(reader: CatalogReader, source: SourceState, after: Version) -> SourceState:
    """Returns an upstream's state with `Commit.removed` set for deletes: how many rows of which commit they removed.

    Only deletes later than the version `after` count; without any, nothing is read. A deleted row belongs to the commit
    that added its data file. Returns `source` unchanged if its format version is 1.
    """
    deletions = [
        commit for commit in source.commits if commit.operation == "delete" and commit.version.sequence > after.sequence
    ]
    if not deletions or source.format_version < 2:
        return source
    table = reader.load_table(source.log.schema, source.log.name)
    removed = {commit.version.snapshot: _list_removed_keys(table, commit.version.snapshot) for commit in deletions}
    commits = (replace(commit, removed=removed.get(commit.version.snapshot)) for commit in source.commits)
    return replace(source, commits=tuple(commits))


def _list_removed_keys(table: Table, snapshot_id: int) -> tuple[Removed, ...] | None:
    """Counts the rows that a snapshot removed, by the sequence number of the commit that added their file.

    None if the snapshot is not kept, or if its delete files do not name the data files of the rows.
    """
    from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus

    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return None
    rows: Counter[int] = Counter()
    of_files: Counter[str] = Counter()
    for manifest in list_manifests(table, snapshot):
        if manifest.added_snapshot_id != snapshot_id:
            continue
        is_data = manifest.content == ManifestContent.DATA
        for entry in read_entries(table, manifest):
            file = entry.data_file
            if is_data and entry.status == ManifestEntryStatus.DELETED:
                rows[get_sequence(entry, manifest)] += file.record_count
            elif is_data or entry.status != ManifestEntryStatus.ADDED:
                continue
            elif file.content == DataFileContent.POSITION_DELETES and (
                path := get_referenced_path(file) or find_only_path(file)
            ):
                of_files[path] += file.record_count
            else:
                return None
    if of_files:
        sequences = dict(_sequences(table, snapshot))
        if not of_files.keys() <= sequences.keys():
            return None
        for path, count in of_files.items():
            rows[sequences[path]] += count
    return tuple(Removed(sequence, count) for sequence, count in sorted(rows.items()))


def _sequences(table: Table, snapshot: Snapshot) -> Iterator[tuple[str, int]]:
    """Yields the path of each live data file of a snapshot, with the sequence number of the commit that added it."""
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

    for manifest in list_manifests(table, snapshot):
        if manifest.content == ManifestContent.DATA:
            for entry in read_entries(table, manifest):
                if entry.status != ManifestEntryStatus.DELETED:
                    yield entry.data_file.file_path, get_sequence(entry, manifest)
