"""Commits to tables of a catalog in a database, by a new metadata file, without Spark.

A commit writes the file that Iceberg's Java library would write, and makes it the table's current one if no other
writer was faster. What pyiceberg does not know of the metadata stays as it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from arctic_runtime.catalog.metadata_files import (
    name_metadata_file,
    open_storage,
    parse_file_number,
    write_metadata_file,
)
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

Metadata = Mapping[str, Any]
"""Metadata of an Iceberg table, as JSON."""

_MOST_FILES, _MOST_FILES_DEFAULT = "write.metadata.previous-versions-max", 100
_IS_DELETED = "write.metadata.delete-after-commit.enabled"
_RETRIES, _RETRIES_DEFAULT = "commit.retry.num-retries", 4
_SHORTEST_WAIT, _SHORTEST_WAIT_DEFAULT = "commit.retry.min-wait-ms", 100
_LONGEST_WAIT, _LONGEST_WAIT_DEFAULT = "commit.retry.max-wait-ms", 60_000


def commit_metadata(reader: CatalogReader, name: TableName, edit: Callable[[Metadata], Metadata]) -> None:
    """Commits the metadata that `edit` derives from a table's present metadata; commits nothing if it stays the same.

    If another writer commits at the same time, calls `edit` again with the new metadata, as often as the table's
    properties allow. Raises CommitConflict if others were faster each time, or if there is no such table.
    """
    waits: Iterator[float] | None = None
    while True:
        current = reader.read_metadata_file(name.schema, name.name)
        if current is None:
            raise CommitConflict(f"{name} can't be changed: it does not exist any more.")
        file, text = current
        metadata: dict[str, Any] = json.loads(text)
        edited = edit(metadata)
        if edited == metadata or _swap_file(reader, name, file, metadata, edited):
            return
        waits = compute_retry_waits(metadata["properties"]) if waits is None else waits
        wait = next(waits, None)
        if wait is None:
            raise CommitConflict(f"Another writer committed first.\n  while: change the metadata of {name}")
        time.sleep(wait)


def compute_retry_waits(properties: Mapping[str, str]) -> Iterator[float]:
    """Yields the seconds to wait before each further try of a commit to a table with these properties.

    Each pause is twice as long as the one before, up to the longest.
    """
    shortest = _read_number(properties, _SHORTEST_WAIT, _SHORTEST_WAIT_DEFAULT)
    longest = _read_number(properties, _LONGEST_WAIT, _LONGEST_WAIT_DEFAULT)
    for lost in range(_read_number(properties, _RETRIES, _RETRIES_DEFAULT)):
        yield min(shortest << lost, longest) / 1000


def _swap_file(reader: CatalogReader, name: TableName, file: str, metadata: Metadata, edited: Metadata) -> bool:
    """Writes edited metadata, and makes it the current one if the table's metadata file still is `file`.

    Returns whether it was. Deletes files that no metadata names any more.
    """
    following = build_next_metadata(metadata, edited, file, round(1000 * time.time()))
    number = parse_file_number(file)
    address = name_metadata_file(following, 0 if number is None else number + 1)
    text = write_metadata_file(reader, address, following)
    storage = open_storage(reader, following, address)
    if not reader.swap_metadata_file(name.schema, name.name, file, address):
        _delete_files(storage, [address])
        return False
    reader.keep_metadata_text(address, text)
    if following["properties"].get(_IS_DELETED, "").lower() == "true":
        kept = {entry["metadata-file"] for entry in following["metadata-log"]}
        former = [str(entry["metadata-file"]) for entry in metadata.get("metadata-log", ())]
        _delete_files(storage, [path for path in former if path not in kept])
    return True


def build_next_metadata(metadata: Metadata, edited: Metadata, file: str, now_ms: int) -> dict[str, Any]:
    """Builds the content of the metadata file that follows `file`, whose content is `metadata`, from the edited one.

    Adds what each commit does: the time of the change, the file before in the log of files, and, if the current
    snapshot is another one, this snapshot in the log of snapshots. Times never go back, if a clock does.
    """
    history = list(edited.get("snapshot-log", ()))
    now = max(now_ms, metadata["last-updated-ms"], *(entry["timestamp-ms"] for entry in history[-1:]))
    if edited.get("current-snapshot-id") != metadata.get("current-snapshot-id"):
        history.append({"timestamp-ms": now, "snapshot-id": edited["current-snapshot-id"]})
    most = max(1, _read_number(edited["properties"], _MOST_FILES, _MOST_FILES_DEFAULT))
    former = {"timestamp-ms": metadata["last-updated-ms"], "metadata-file": file}
    files = [*metadata.get("metadata-log", ()), former][-most:]
    return {**edited, "last-updated-ms": now, "snapshot-log": history, "metadata-log": files}


def _read_number(properties: Mapping[str, str], key: str, default: int) -> int:
    return int(properties.get(key, default))


def _delete_files(storage: FileIO, paths: Iterable[str]) -> None:
    """Deletes files, on a local disk with the checksums that Java keeps beside them; ignores files that it can't."""
    for path in paths:
        folder, _, name = path.rpartition("/")
        checksum = [f"{folder}/.{name}.crc"] if urlsplit(path).scheme in ("", "file") else []
        for each in (path, *checksum):
            with suppress(OSError):
                storage.delete(each)
