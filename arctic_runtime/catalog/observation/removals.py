"""Observes how many rows were removed by commits that only delete, from manifests; no data file is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.manifests import (
    find_only_path,
    get_referenced_path,
    get_sequence,
    list_manifests,
    read_entries,
)
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.state import Removed, SourceState
from arctic_runtime.model.version import Version

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


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


def _list_removed_keys(table: Table, number: int) -> tuple[Removed, ...] | None:
    """Counts the rows that the snapshot `number` removed, by the sequence number of the commit that added their file.

    None if the snapshot is not kept, or if its delete files do not name the data files of the rows.
    """
    from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus

    snapshot = table.snapshot_by_id(number)
    if snapshot is None:
        return None
    rows: Counter[int] = Counter()
    of_files: Counter[str] = Counter()
    for manifest in list_manifests(table, snapshot):
        if manifest.added_snapshot_id != number:
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
