"""Observes the files of tables from manifests, and interrupted base rewrites from branches; no data file is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.reader import CatalogReader, to_spark_type
from arctic_runtime.model.files.compaction import (
    BucketRange,
    DataFile,
    FileGroup,
    FileTotals,
    PartialProgress,
    PartitionValue,
    Specs,
    TableFiles,
    parse_rewrite_branch,
)
from arctic_runtime.model.files.layout import NOT_BUCKETED, TARGET_PROPERTY, Placement
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import KIND, REWRITTEN
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Transform, Unit

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType


DEFAULT_TARGET_BYTES = 512 * 1024 * 1024

_PATH_FIELD = 2147483546
"""The field id that Iceberg reserves for the column of paths in position delete files."""

_UNITS: Mapping[str, Unit] = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_NUMBERED = ("bucket", "years", "months", "hours")
_WRITTEN = ("boolean", "int", "long", "date", "timestamp", "timestamptz", "string")
"""Iceberg's types whose values Spark reads back exactly from the text that pyiceberg makes of them; decimals too."""


def observe_totals(reader: CatalogReader, name: TableName) -> FileTotals:
    """Returns the counts and bytes of a table's files from snapshot summaries; costs no more than loading the table.

    `appends` and `added_bytes` count since the last rewrite of files.
    """
    table = reader.load_table(name.schema, name.name)
    snapshot = table.current_snapshot()
    if snapshot is None:
        return FileTotals(0, 0)
    deleted = sum(_read_counter(snapshot, counter) for counter in ("total-position-deletes", "total-equality-deletes"))
    since = [counter for counter in _walk_since_rewrite(table, snapshot) if _has_added_rows(counter)]
    return FileTotals(
        files=_read_counter(snapshot, "total-data-files"),
        deleted=deleted,
        appends=len(since),
        bytes=_read_counter(snapshot, "total-files-size"),
        added_bytes=sum(_read_counter(counter, "added-files-size") for counter in since),
    )


def _walk_since_rewrite(table: Table, newest: Snapshot) -> Iterator[Snapshot]:
    at: Snapshot | None = newest
    while at is not None and not (at.summary is not None and at.summary.operation.value == "replace"):
        yield at
        at = None if at.parent_snapshot_id is None else table.snapshot_by_id(at.parent_snapshot_id)


def _has_added_rows(snapshot: Snapshot) -> bool:
    return (
        snapshot.summary is not None
        and snapshot.summary.operation.value == "append"
        and _read_counter(snapshot, "added-records") > 0
    )


def _read_counter(snapshot: Snapshot, what: str) -> int:
    return int(snapshot.summary.additional_properties.get(what, 0)) if snapshot.summary else 0


def observe_files(reader: CatalogReader, name: TableName) -> TableFiles | None:
    """Returns the files of a table's newest snapshot, grouped by partition; None if the table has no snapshot.

    Deleted rows are counted by deletion vectors, each of which names its data file. Before format version 3 they are
    counted by the position delete files that are for one data file each.
    """
    table = reader.load_table(name.schema, name.name)
    snapshot = table.current_snapshot()
    if snapshot is None:
        return None
    files: list[tuple[int, Any]] = []
    deleted: dict[str, int] = {}
    for spec, file in walk_live_files(table, snapshot):
        if file.content.name == "DATA":
            files.append((spec, file))
        elif path := get_referenced_path(file) or find_only_path(file):
            deleted[path] = deleted.get(path, 0) + file.record_count
    files_by_group: dict[tuple[int, tuple[Any, ...]], list[DataFile]] = {}
    for spec, file in files:
        values = tuple(file.partition[i] for i in range(len(table.specs()[spec].fields)))
        gone = deleted.get(file.file_path, 0)
        lying = DataFile(file.file_size_in_bytes, file.record_count, gone)
        files_by_group.setdefault((spec, values), []).append(lying)
    nodes = (
        FileGroup(spec, _build_partition(table, spec, values), tuple(deletes))
        for (spec, values), deletes in files_by_group.items()
    )
    target = int(table.properties.get(TARGET_PROPERTY, DEFAULT_TARGET_BYTES))
    specs = _build_specs(table)
    return TableFiles(
        name,
        snapshot.snapshot_id,
        tuple(sorted(nodes, key=str)),
        target,
        specs.default,
        specs.transforms[specs.default],
    )


def list_added_files(table: Table, commits: Iterable[Commit]) -> dict[str, int]:
    """Maps the path of each data file that these commits added to the commit's sequence number."""
    places: dict[str, int] = {}
    for commit in commits:
        snapshot = table.snapshot_by_id(commit.version.snapshot)
        assert snapshot is not None
        for manifest in list_manifests(table, snapshot):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                entries = read_inherited_entries(table, manifest)
                added = (entry for entry in entries if entry.snapshot_id == snapshot.snapshot_id)
                places |= {entry.data_file.file_path: commit.version.sequence for entry in added}
    return places


def observe_upper_bound(reader: CatalogReader, name: TableName, column: str) -> int | None:
    """Returns an upper bound of a column of whole numbers, by the bounds in the manifests of a table's newest snapshot.

    None if there are no such bounds or no such column.
    """
    bounds = list_upper_bounds(reader.load_table(name.schema, name.name), column)
    return max((bound for bound in bounds if bound is not None), default=None)


def list_upper_bounds(table: Table, column: str) -> list[int | None]:
    """Lists an upper bound of a column of whole numbers for each data file of a table's newest snapshot.

    None for a file without one, such as one that was written before the column was added.
    """
    snapshot, schema = table.current_snapshot(), table.schema()
    if snapshot is None:
        return []
    place = schema.find_field(column).field_id if column in schema.column_names else None
    data = (file for _, file in walk_live_files(table, snapshot) if file.content.name == "DATA")
    ends = ((file.upper_bounds or {}).get(place) for file in data)
    return [None if end is None else int.from_bytes(end, "little", signed=True) for end in ends]


def has_removed_entries(reader: CatalogReader, name: TableName) -> bool:
    """Whether a manifest of a table's newest snapshot still lists deleted files, with the bounds of their values."""
    from pyiceberg.manifest import ManifestContent

    table = reader.load_table(name.schema, name.name)
    snapshot = table.current_snapshot()
    data = (
        [manifest for manifest in list_manifests(table, snapshot) if manifest.content == ManifestContent.DATA]
        if snapshot
        else []
    )
    return any(manifest.deleted_files_count for manifest in data)


def observe_specs(reader: CatalogReader, name: TableName) -> Specs:
    """Returns the transforms of all partition specs that a table has or had, and the id of the current one."""
    return _build_specs(reader.load_table(name.schema, name.name))


def observe_bucketing(reader: CatalogReader, name: TableName) -> Placement:
    """Returns how the files of a model's base table are bucketed: by which column, and into how many buckets.

    Reads only manifest lists. Returns NOT_BUCKETED if not all files are bucketed by one column, or if the table is not
    a base.
    """
    from pyiceberg.manifest import ManifestContent

    table = reader.load_table(name.schema, name.name)
    snapshot = table.current_snapshot()
    if table.properties.get(KIND) != "base" or snapshot is None:
        return NOT_BUCKETED
    transforms = _build_specs(table).transforms
    data = [manifest for manifest in list_manifests(table, snapshot) if manifest.content == ManifestContent.DATA]
    layouts = {
        transforms[manifest.partition_spec_id]
        for manifest in data
        if manifest.has_added_files() or manifest.has_existing_files()
    }
    buckets = {manifest[-1] for manifest in layouts if manifest and manifest[-1].unit == "bucket"}
    if (
        any(not manifest or manifest[-1] not in buckets for manifest in layouts)
        or len({manifest.column for manifest in buckets}) != 1
    ):
        return NOT_BUCKETED
    others = dict.fromkeys(part.column for manifest in layouts for part in manifest[:-1])
    (column,) = {manifest.column for manifest in buckets}
    return Placement(column, tuple(sorted(manifest.parameter or 0 for manifest in buckets)), tuple(others))


def _build_specs(table: Table) -> Specs:
    transforms = {
        number: tuple(build_partition_value(table, field, None).transform for field in spec.fields)
        for number, spec in table.specs().items()
    }
    return Specs(table.spec().spec_id, transforms)


def walk_live_files(table: Table, snapshot: Snapshot) -> Iterator[tuple[int, Any]]:
    """Yields the partition spec id and the file of each entry in a snapshot's manifests that is not deleted."""
    from pyiceberg.manifest import ManifestEntryStatus

    for manifest in list_manifests(table, snapshot):
        for entry in read_entries(table, manifest):
            if entry.status != ManifestEntryStatus.DELETED:
                yield manifest.partition_spec_id, entry.data_file


def list_manifests(table: Table, snapshot: Snapshot) -> list[ManifestFile]:
    """Reads the manifest list of a snapshot; raises CorruptState if it is missing or damaged."""
    with explain_damage(table, snapshot.manifest_list):
        return snapshot.manifests(table.io)


def check_manifests(table: Table, snapshot_id: int) -> None:
    """Reads all manifests of the snapshot with the id `snapshot_id`; raises CorruptState, which names a damaged one."""
    snapshot = table.snapshot_by_id(snapshot_id)
    for manifest in list_manifests(table, snapshot) if snapshot is not None else ():
        read_inherited_entries(table, manifest)


def read_inherited_entries(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    """Reads the entries of a manifest that are not deleted, with the sequence numbers that they inherit from it.

    Raises CorruptState if the manifest is missing or damaged.
    """
    with explain_damage(table, manifest.manifest_path):
        return manifest.fetch_manifest_entry(table.io)


def read_entries(table: Table, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Yields the entries of a manifest with the fields of format version 3; pyiceberg's own reader drops those.

    Raises CorruptState if the manifest is missing or damaged.
    """
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, DataFileContent, FileFormat, ManifestEntryStatus
    from pyiceberg.manifest import DataFile as Entry
    from pyiceberg.manifest import ManifestEntry as Read

    with (
        explain_damage(table, manifest.manifest_path),
        AvroFile[Read](
            table.io.new_input(manifest.manifest_path),
            MANIFEST_ENTRY_SCHEMAS[3],
            read_types={-1: Read, 2: Entry},
            read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        ) as entries,
    ):
        yield from entries


def get_sequence(entry: ManifestEntry, manifest: ManifestFile) -> int:
    """Returns the sequence number of the commit that added a file.

    It is in the file's entry, or else in the manifest.
    """
    return manifest.sequence_number if entry.sequence_number is None else entry.sequence_number


def get_referenced_path(deletes: Any) -> str | None:
    """Returns the path of the data file to which a deletion vector belongs; None for other files.

    Pyiceberg has no property for it.
    """
    from pyiceberg.manifest import DATA_FILE_TYPE

    path: str | None = deletes[[field.name for field in DATA_FILE_TYPE[3].fields].index("referenced_data_file")]
    return path


def find_only_path(deletes: Any) -> str | None:
    """Returns the path of the data file to which a position delete file belongs; None if it is for several.

    It is read from the bounds of its path column.
    """
    first, last = ((bounds or {}).get(_PATH_FIELD) for bounds in (deletes.lower_bounds, deletes.upper_bounds))
    return first.decode() if first and first == last else None


def _build_partition(table: Table, spec: int, values: tuple[Any, ...]) -> tuple[PartitionValue, ...]:
    fields = table.specs()[spec].fields
    return tuple(build_partition_value(table, field, value) for field, value in zip(fields, values, strict=True))


def build_partition_value(table: Table, field: PartitionField, value: Any) -> PartitionValue:
    """Converts one partition value of a file to its transform, the value as text, and its Spark type.

    The type is empty if no SQL statement could name the value: its column was dropped or is nested, or its type is
    unusual.
    """
    source = next((column for column in table.schema().fields if column.field_id == field.source_id), None)
    if source is None or str(field.transform) in ("void", "unknown"):
        return PartitionValue(Transform("identity", field.name), None if value is None else str(value), "")
    transform = _build_transform(field, source.name)
    if transform.unit in _NUMBERED:
        return PartitionValue(transform, None if value is None else str(value), "int")
    text = None if value is None else field.transform.to_human_string(source.field_type, value)
    return PartitionValue(transform, text, "date" if transform.unit == "days" else _get_written_type(source.field_type))


def _get_written_type(kind: IcebergType) -> str:
    from pyiceberg.types import DecimalType

    return to_spark_type(kind) if isinstance(kind, DecimalType) or str(kind) in _WRITTEN else ""


def _build_transform(field: PartitionField, column: str) -> Transform:
    from pyiceberg.transforms import BucketTransform, TruncateTransform

    match field.transform:
        case BucketTransform(num_buckets=buckets):
            return Transform("bucket", column, buckets)
        case TruncateTransform(width=width):
            return Transform("truncate", column, width)
        case other:
            return Transform(_UNITS.get(str(other), "identity"), column)


def observe_partial_progress(reader: CatalogReader, name: TableName) -> tuple[PartialProgress, ...]:
    """Lists the interrupted rewrites of the base table `name` that can be continued.

    These have a branch that starts at the table's newest snapshot.
    """
    table = reader.load_table(name.schema, name.name)
    progress_by_branch = (_read_progress(table, branch, ref) for branch, ref in table.metadata.refs.items())
    return tuple(one for one in progress_by_branch if one is not None)


def _read_progress(table: Table, branch: str, ref: SnapshotRef) -> PartialProgress | None:
    head = table.metadata.current_snapshot_id
    end = parse_rewrite_branch(branch, head) if head is not None else None
    if head is None or end is None or ref.snapshot_ref_type != "branch":
        return None
    behind = list(_walk_branch(table, ref.snapshot_id, head))
    return (
        PartialProgress(branch, end, frozenset(filter(None, map(_parse_range, behind)))) if behind[-1] == "" else None
    )


def _walk_branch(table: Table, tip: int, head: int) -> Iterator[str]:
    """Yields the range of buckets that each snapshot from `tip` back to `head` has rewritten; `?` if it names none.

    The last text is empty if the snapshots lead back to `head`, else `?`.
    """
    at: int | None = tip
    while at is not None and at != head:
        snapshot = table.snapshot_by_id(at)
        part = snapshot.summary.additional_properties.get(REWRITTEN) if snapshot and snapshot.summary else None
        yield part or "?"
        at = snapshot.parent_snapshot_id if snapshot else None
    yield "" if at == head else "?"


def _parse_range(text: str) -> BucketRange | None:
    first, _, last = text.partition("-")
    return BucketRange(int(first), int(last)) if first.isdecimal() and last.isdecimal() else None
