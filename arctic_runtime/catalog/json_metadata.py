"""The metadata of a table as its JSON file has it, with the names of pyiceberg, whose classes take long to load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from arctic_runtime.catalog.foreign_types import make_readable

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot

    LoadedTable: TypeAlias = "Table | JsonTable"
    LoadedSnapshot: TypeAlias = "Snapshot | JsonSnapshot"
    LoadedRef: TypeAlias = "SnapshotRef | JsonRef"
    LoadedSchema: TypeAlias = "Schema | JsonSchema"

Json = dict[str, Any]

OLDEST_VERSION = 2
"""Oldest format version whose metadata file has all parts that are read here; version 1 may lack some."""


class Operation(Enum):
    """Operation of a snapshot, as in Iceberg's specification."""

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@dataclass(frozen=True)
class JsonSummary:
    """Summary of a snapshot: its operation, and the other entries."""

    operation: Operation
    additional_properties: Mapping[str, str]


@dataclass(frozen=True)
class JsonSnapshot:
    """A snapshot of a table."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int | None
    timestamp_ms: int
    schema_id: int | None
    summary: JsonSummary | None

    @classmethod
    def parse(cls, described: Json) -> JsonSnapshot:
        entries = described.get("summary")
        return cls(
            described["snapshot-id"],
            described.get("parent-snapshot-id"),
            described.get("sequence-number", 0),
            described["timestamp-ms"],
            described.get("schema-id"),
            None if entries is None else _parse_summary(entries),
        )


def _parse_summary(entries: Mapping[str, str]) -> JsonSummary:
    others = {name: text for name, text in entries.items() if name != "operation"}
    return JsonSummary(Operation(entries.get("operation", "overwrite")), others)


@dataclass(frozen=True)
class JsonRef:
    """A branch or a tag; `snapshot_ref_type` says which."""

    snapshot_id: int
    snapshot_ref_type: str


@dataclass(frozen=True)
class JsonField:
    """A column of a schema; `field_type` is a text or, for nested types, a mapping, as Iceberg's specification says."""

    field_id: int
    name: str
    field_type: str | Json
    required: bool
    doc: str | None


class JsonSchema:
    """A schema of a table; `described` is its JSON."""

    def __init__(self, described: Json) -> None:
        self.described = described
        self.schema_id = int(described.get("schema-id", 0))
        self.fields = tuple(
            JsonField(field["id"], field["name"], field["type"], bool(field.get("required")), field.get("doc"))
            for field in described["fields"]
        )

    @cached_property
    def field_ids(self) -> list[int]:
        """Ids of all columns, also of the nested ones."""
        return list(_list_ids(self.described))

    def to_schema(self) -> Schema:
        """Returns the schema as pyiceberg has it, with readable types in the place of unknown ones."""
        from pyiceberg.schema import Schema

        (readable,) = make_readable({"schemas": [self.described]})["schemas"]
        return Schema.model_validate(readable)


def _list_ids(kind: Any) -> Iterator[int]:
    """Yields the ids of the fields, elements, keys and values in a type."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield field["id"]
        yield from _list_ids(field["type"])
    for part in ("element", "key", "value"):
        if part in kind:
            yield kind[f"{part}-id"]
            yield from _list_ids(kind[part])


@dataclass(frozen=True)
class JsonPartitionField:
    """A field of a partition spec; `transform` is its text, such as `bucket[16]`."""

    transform: str


@dataclass(frozen=True)
class JsonSpec:
    """A partition spec of a table."""

    fields: tuple[JsonPartitionField, ...]


@dataclass(frozen=True)
class JsonMetadata:
    """Metadata of the current version of a table; `snapshots` are in the order of the file."""

    table_uuid: UUID
    format_version: int
    current_snapshot_id: int | None
    default_sort_order_id: int
    properties: Mapping[str, str]
    snapshots: list[JsonSnapshot]
    refs: Mapping[str, JsonRef]
    schemas: Mapping[int, JsonSchema]
    current_schema_id: int
    spec: JsonSpec
    file_bytes: int

    @classmethod
    def parse(cls, described: Json, file_bytes: int) -> JsonMetadata:
        """Parses a metadata file of `OLDEST_VERSION` or newer; raises errors of Python if a part is missing."""
        current = described.get("current-snapshot-id")
        schemas = map(JsonSchema, described["schemas"])
        metadata = cls(
            UUID(described["table-uuid"]),
            int(described["format-version"]),
            None if current == -1 else current,
            described.get("default-sort-order-id", 0),
            described.get("properties") or {},
            [JsonSnapshot.parse(snapshot) for snapshot in described.get("snapshots") or ()],
            _parse_refs(described.get("refs") or {}, None if current == -1 else current),
            {schema.schema_id: schema for schema in schemas},
            described["current-schema-id"],
            _parse_spec(described),
            file_bytes,
        )
        if metadata.current_schema_id not in metadata.schemas:
            raise ValueError(f"there is no schema {metadata.current_schema_id}")
        return metadata


def _parse_refs(described: Mapping[str, Json], current: int | None) -> dict[str, JsonRef]:
    main = {} if current is None else {"main": JsonRef(current, "branch")}
    return {**main, **{name: JsonRef(ref["snapshot-id"], ref["type"]) for name, ref in described.items()}}


def _parse_spec(described: Json) -> JsonSpec:
    specs = {spec["spec-id"]: spec["fields"] for spec in described["partition-specs"]}
    return JsonSpec(tuple(JsonPartitionField(field["transform"]) for field in specs[described["default-spec-id"]]))


@dataclass(frozen=True)
class JsonTable:
    """The current version of a table: its metadata, and the address of the file that has it.

    Has no access to the table's files. Its attributes are those of pyiceberg's `Table`, for callers that have one or
    the other.
    """

    namespace: str
    table: str
    metadata_location: str
    metadata: JsonMetadata

    def name(self) -> tuple[str, ...]:
        return self.namespace, self.table

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    @property
    def format_version(self) -> int:
        return self.metadata.format_version

    def schema(self) -> JsonSchema:
        return self.metadata.schemas[self.metadata.current_schema_id]

    def schemas(self) -> Mapping[int, JsonSchema]:
        return self.metadata.schemas

    def spec(self) -> JsonSpec:
        return self.metadata.spec

    def snapshot_by_id(self, snapshot_id: int) -> JsonSnapshot | None:
        return next((known for known in self.metadata.snapshots if known.snapshot_id == snapshot_id), None)

    def current_snapshot(self) -> JsonSnapshot | None:
        current = self.metadata.current_snapshot_id
        return None if current is None else self.snapshot_by_id(current)
