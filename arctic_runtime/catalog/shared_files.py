"""Upkeep of tables whose files may belong to other tables as well, as those of a clone: by metadata, without Spark.

Iceberg's procedures refuse such tables, since they would delete files with the snapshots. Here snapshots are removed
from the metadata alone, and the only files that are ever deleted are in the table's own folder.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.metadata_files import (
    name_metadata_file,
    parse_file_number,
    read_metadata_file,
    write_metadata_file,
)
from arctic_runtime.catalog.observation.manifests import list_manifests, read_entries
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.storage.disk_files import is_inside, list_folder, parse_path
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.files.layout import KEPT_METADATA
from arctic_runtime.model.names import TableName

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

_MOST_FILES = "write.metadata.previous-versions-max"


def expire_in_metadata(reader: CatalogReader, name: TableName, snapshots: Collection[int]) -> None:
    """Removes snapshots from a table's metadata, and deletes no file; does nothing for those that are gone.

    Raises CommitConflict if a tag or branch needs one of them, or if another writer commits at the same time.
    """

    def expire_once() -> None:
        table = reader.load_table(name.schema, name.name)
        known = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        gone = known.intersection(snapshots)
        if needed := gone.intersection(ref.snapshot_id for ref in table.metadata.refs.values()):
            raise CommitConflict(f"{name}: a tag or a branch has got the snapshot {min(needed)}, which was to expire.")
        if gone and reader.is_database:
            _expire_in_file(reader, name, table, gone)
        elif gone:
            _expire_by_server(table, name, gone)

    reader.perform_change("clone.expire", f"remove snapshots from the metadata of {name}", expire_once)


def _expire_in_file(reader: CatalogReader, name: TableName, table: Table, gone: Collection[int]) -> None:
    """Writes a metadata file without the snapshots `gone`, and makes it the current one."""
    current = table.metadata_location
    number = parse_file_number(current)
    metadata = remove_snapshots(read_metadata_file(table), gone, current)
    address = name_metadata_file(metadata, 0 if number is None else number + 1)
    write_metadata_file(reader, address, metadata)
    if not reader.swap_metadata_file(name.schema, name.name, current, address):
        raise CommitConflict(f"Another writer committed first.\n  while: remove snapshots from the metadata of {name}")


def _expire_by_server(table: Table, name: TableName, gone: Collection[int]) -> None:
    """Asks the catalog's server to remove the snapshots `gone`."""
    from pyiceberg.exceptions import CommitFailedException

    try:
        table.maintenance.expire_snapshots().by_ids(sorted(gone)).commit()
    except CommitFailedException as error:
        raise CommitConflict(
            f"Another writer committed first.\n  while: remove snapshots from the metadata of {name}"
        ) from error


def remove_snapshots(metadata: Mapping[str, Any], gone: Collection[int], file: str) -> dict[str, Any]:
    """Returns the JSON of a table's metadata without the snapshots `gone`; `file` is its metadata file until now."""
    log = list(metadata.get("snapshot-log", ()))
    last = max((place for place, entry in enumerate(log) if entry["snapshot-id"] in gone), default=-1)
    files = [*metadata.get("metadata-log", ()), {"metadata-file": file, "timestamp-ms": metadata["last-updated-ms"]}]
    of_snapshots = {
        key: [entry for entry in metadata[key] if entry["snapshot-id"] not in gone]
        for key in ("snapshots", "statistics", "partition-statistics")
        if key in metadata
    }
    most = int(metadata["properties"].get(_MOST_FILES, KEPT_METADATA[_MOST_FILES]))
    return {**metadata, **of_snapshots, "snapshot-log": log[last + 1 :], "metadata-log": files[-most:]}


def list_own_orphans(reader: CatalogReader, name: TableName, before: datetime.datetime) -> list[str]:
    """Lists the files in a table's folder that are older than `before` and that no snapshot of the table contains."""
    table = reader.load_table(name.schema, name.name)
    needed = {parse_path(table, path) for path in _list_needed_files(table)}
    before_ms = 1000 * before.timestamp()
    files = list_folder(table.io.properties, table.location())
    return sorted(path for path, _, at_ms in files if at_ms < before_ms and parse_path(table, path) not in needed)


def remove_own_files(reader: CatalogReader, name: TableName, paths: Collection[str]) -> None:
    """Deletes files in a table's folder; those elsewhere stay, since they may be files of another table."""
    table = reader.load_table(name.schema, name.name)
    folder = parse_path(table, table.location())

    def remove_files() -> None:
        for path in paths:
            if is_inside(parse_path(table, path), folder):
                with suppress(FileNotFoundError):
                    table.io.delete(path)

    if paths:
        reader.perform_change("clone.remove_files", f"delete files of {name}", remove_files)


def _list_needed_files(table: Table) -> Iterator[str]:
    """Yields the addresses of all files that a table needs: of its metadata, and those that its manifests name."""
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (statistics.statistics_path for statistics in (*metadata.statistics, *metadata.partition_statistics))
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        manifests |= {manifest.manifest_path: manifest for manifest in list_manifests(table, snapshot)}
    for path, manifest in manifests.items():
        yield path
        yield from (entry.data_file.file_path for entry in read_entries(table, manifest))
