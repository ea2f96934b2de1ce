"""Lists the data files in a table's storage, also files that no snapshot contains, and searches for keys in them.

The searches include rows that a deletion vector marks as deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.observation.manifests import list_manifests, read_entries
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog_kinds.object_stores import is_store_address
from arctic_runtime.model.names import TableName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_FIELD_ID = b"PARQUET:field_id"
_SUFFIX = ".parquet"


@dataclass(frozen=True)
class DiskFile:
    """A data file in storage."""

    path: str
    bytes: int
    at_ms: int
    """Time when the file was written, in milliseconds since 1970; 0 if a snapshot contains the file."""

    is_referenced: bool
    """Whether a snapshot of the table contains the file."""


class DiskFiles:
    """The data files of one table; `key` are the names of the columns by which rows are looked up in them."""

    def __init__(self, reader: CatalogReader, name: TableName, key: Iterable[str]) -> None:
        self.table = reader.load_table(name.schema, name.name)
        self._key = tuple(key)

    def list_snapshot_files(self, snapshot: int | None = None) -> dict[str, int]:
        """Returns the size in bytes of each data file of a snapshot, by its path; None means the newest snapshot."""
        table = self.table
        known = table.current_snapshot() if snapshot is None else table.snapshot_by_id(snapshot)
        return dict(_list_data_files(table, [known] if known else []))

    def find_tagged_snapshot(self, tag: str) -> int | None:
        """Returns the id of the snapshot that a tag points to; None if there is no such tag."""
        ref = self.table.metadata.refs.get(tag)
        return None if ref is None else ref.snapshot_id

    def on_disk(self) -> list[DiskFile]:
        """Lists the data files that the table's snapshots contain, then all others in the table's folders."""
        named = dict(_list_data_files(self.table, self.table.metadata.snapshots))
        places = {self._parse_path(path) for path in named}
        loose = [file for file in self._list_files() if self._parse_path(file.path) not in places]
        return [*(DiskFile(path, size, 0, True) for path, size in named.items()), *loose]

    def remove_file(self, path: str) -> None:
        """Deletes a file; does nothing if the file does not exist."""
        with suppress(FileNotFoundError):
            self.table.io.delete(path)

    def count_rows_under(self, path: str, keys: pa.Table) -> int:
        """Counts the rows of the file `path` whose key is one of `keys`, including rows that are marked as deleted.

        The columns of `keys` are those of the key, in the same order. If the key has no columns, all rows are counted
        if `keys` has any row, else none.
        """
        import pyarrow.parquet as pq

        with explain_damage(self.table, path), self.table.io.new_input(path).open() as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            if not self._key:
                return int(file.metadata.num_rows) if keys.num_rows else 0
            names = self._list_key_names(file.schema_arrow)
            groups = [group for group in range(file.num_row_groups) if _may_have_key(file, group, names, keys)]
            batches = (file.read_row_group(group, columns=names) for group in groups)
            return sum(_count_rows(rows.select(names), keys) for rows in batches)

    def _list_key_names(self, schema: pa.Schema) -> list[str]:
        """Lists the names that the key's columns have in a file with the given schema.

        A file may have older names than the table; so columns are looked up by their field ids, which never change.
        """
        ids = {
            int(field.metadata[_FIELD_ID]): field.name
            for field in schema
            if field.metadata and _FIELD_ID in field.metadata
        }
        own = self.table.schema()
        fields = (own.find_field(part, case_sensitive=False) for part in self._key)
        return [ids.get(field.field_id, field.name) for field in fields]

    def _list_files(self) -> Iterator[DiskFile]:
        for folder in self._list_folders():
            for path, size, at_ms in list_folder(self.table.io.properties, folder):
                if path.endswith(_SUFFIX):
                    yield DiskFile(path, size, at_ms, False)

    def _list_folders(self) -> list[str]:
        location = self.table.location()
        data = self.table.properties.get("write.data.path", location)
        is_below = is_inside(self._parse_path(data), self._parse_path(location))
        return [location] if is_below else [location, data]

    def _parse_path(self, path: str) -> str:
        return parse_path(self.table, path)


def parse_path(table: Table, path: str) -> str:
    """Returns the path of a file within its storage, without the scheme, by which two addresses can be compared."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return PyArrowFileIO.parse_location(path, table.io.properties)[2]


def list_store_files(reader: CatalogReader, folder: str) -> list[tuple[str, datetime]] | None:
    """Lists the address and the time of each file in a folder; None if the folder is not in an object store.

    The time is the latest at which the file may have been written.
    """
    if not is_store_address(folder):
        return None
    properties = reader.catalog.properties
    return [
        (path, datetime.fromtimestamp(at_ms / 1000, timezone.utc)) for path, _, at_ms in list_folder(properties, folder)
    ]


def list_folder(properties: Mapping[str, Any], folder: str) -> Iterator[tuple[str, int, int]]:
    """Yields address, size and time in milliseconds of each file in a folder and in all folders below it."""
    from pyarrow.fs import FileSelector, FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    io = PyArrowFileIO(dict(properties))
    scheme, host, path = io.parse_location(folder, io.properties)
    files = io.fs_by_scheme(scheme, host or None)
    begin = folder[: len(folder) - len(path)] if folder.endswith(path) else ""
    for info in files.get_file_info(FileSelector(path, allow_not_found=True, recursive=True)):
        if info.type == FileType.File:
            yield f"{begin}{info.path}", info.size, _get_modified_ms(info)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is the folder itself or is below it."""
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _get_modified_ms(info: Any) -> int:
    """Returns the latest time at which a file may have been written, in milliseconds since 1970.

    Object stores round the time down to the second. Returns 0 if the time is not known.
    """
    if not info.mtime_ns:
        return 0
    return int(info.mtime_ns // 1_000_000) + (999 if info.mtime_ns % 1_000_000_000 == 0 else 0)


def _list_data_files(table: Table, snapshots: Iterable[Snapshot]) -> Iterator[tuple[str, int]]:
    """Yields the path and the size in bytes of each data file that any of `snapshots` contains.

    Reads each manifest once, even if several snapshots contain it.
    """
    from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus

    manifests = {
        manifest_file.manifest_path: manifest_file
        for snapshot in snapshots
        for manifest_file in list_manifests(table, snapshot)
    }
    for manifest in manifests.values():
        if manifest.content == ManifestContent.DATA:
            for entry in read_entries(table, manifest):
                file = entry.data_file
                if entry.status != ManifestEntryStatus.DELETED and file.content == DataFileContent.DATA:
                    yield file.file_path, file.file_size_in_bytes


def _may_have_key(file: Any, group: int, names: list[str], keys: pa.Table) -> bool:
    """Whether a row group may have one of `keys`, by the lowest and highest value of the key's first column in it.

    True if these are not known.
    """
    import pyarrow.compute as pc

    metadata = file.metadata.row_group(group)
    columns = (metadata.column(place) for place in range(metadata.num_columns))
    first_column = next((column for column in columns if column.path_in_schema == names[0]), None)
    statistics = first_column.statistics if first_column is not None else None
    if statistics is None or not statistics.has_min_max or keys.num_rows == 0:
        return bool(keys.num_rows)
    try:
        first = pc.cast(keys.column(0), file.schema_arrow.field(names[0]).type)
        inside = pc.and_(pc.greater_equal(first, statistics.min), pc.less_equal(first, statistics.max))
        return bool(pc.any(inside).as_py())
    except (TypeError, ValueError, NotImplementedError):
        return True


def _count_rows(rows: pa.Table, keys: pa.Table) -> int:
    """Counts the rows of `rows` that also occur in `keys`; both have only the key's columns, in the same order."""
    import pyarrow.compute as pc

    names = [f"k{place}" for place in range(rows.num_columns)]
    wanted = keys.rename_columns(names)
    renamed = rows.rename_columns(names).cast(wanted.schema)
    if len(names) == 1:
        return int(pc.sum(pc.is_in(renamed.column(0), value_set=wanted.column(0).combine_chunks())).as_py() or 0)
    return int(renamed.join(wanted, keys=names, join_type="left semi").num_rows)
