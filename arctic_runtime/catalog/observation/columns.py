"""Columns of an Iceberg table: Spark's types, earlier names, and names, ids or types that have changed."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.json_metadata import JsonSchema
from arctic_runtime.catalog.reader import UnsupportedType, to_spark_type
from arctic_runtime.model.columns import Column, Names, is_same_name

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from arctic_runtime.catalog.json_metadata import Json, LoadedSchema, LoadedTable

UNSORTED = 0
"""The id of the sort order without columns, in Iceberg's specification."""


def list_columns(schema: LoadedSchema) -> tuple[Column, ...]:
    """Lists a schema's columns with Spark's types."""
    return tuple(Column(field.name, _get_spark_type(field.field_type)) for field in schema.fields)


def _get_spark_type(kind: IcebergType | str | Json) -> str:
    """Returns Spark's name of a type; `unsupported` if it has none, since Spark refuses to read such a column."""
    try:
        return to_spark_type(kind)
    except UnsupportedType:
        return "unsupported"


def map_former_names(table: LoadedTable) -> dict[int, Names]:
    """Maps each snapshot with other column names to a dict of present names and the names at that snapshot.

    Iceberg finds columns in old files by their ids, not by these names. The former name is empty if the column did not
    exist then and its present name was that of another column.
    """
    today, schemas = table.schema(), table.schemas()
    if len(schemas) == 1:
        return {}
    names = {number: _map_names_then(today, schema) for number, schema in schemas.items()}
    names_by_snapshot = (
        (snapshot_entry.snapshot_id, names.get(snapshot_entry.schema_id or 0, {}))
        for snapshot_entry in table.metadata.snapshots
    )
    return {snapshot: then for snapshot, then in names_by_snapshot if then}


def _map_names_then(today: LoadedSchema, schema: LoadedSchema) -> Names:
    then = {field.field_id: field.name for field in schema.fields}
    known = {name.lower() for name in then.values()}
    pairs = [(field.name, then.get(field.field_id, "")) for field in today.fields]
    return {now: old for now, old in pairs if not is_same_name(now, old) and (old or now.lower() in known)}


def list_snapshots_with_dropped_columns(table: LoadedTable) -> frozenset[int]:
    """Returns the ids of the snapshots with a column that was dropped since; one of its name is another column."""
    schemas, today = table.schemas(), table.schema().field_ids
    if len(schemas) == 1:
        return frozenset()
    lost = {number for number, schema in schemas.items() if not set(schema.field_ids) <= set(today)}
    snapshots = table.metadata.snapshots
    return frozenset(snapshot.snapshot_id for snapshot in snapshots if (snapshot.schema_id or 0) in lost)


def list_reassigned_columns(table: LoadedTable) -> Iterator[str]:
    """Yields a text for each column, also nested ones, whose name, id or type has changed, or that has a default value.

    It is `name=id` if the name has had several ids, or the id several names, `name:type` if the type has changed, and
    `name=default value` if rows from before the column was added have that value in it.
    """
    if len(table.schemas()) == 1:
        return
    schemas, today = [_to_schema(schema) for schema in table.schemas().values()], _to_schema(table.schema())
    ever = {(name.lower(), schema.find_field(name).field_id) for schema in schemas for name in schema.column_names}
    ids, names = Counter(name for name, _ in ever), Counter(number for _, number in ever)
    types = _collect_types(schemas)
    for name in map(str.lower, today.column_names):
        field = today.find_field(name, case_sensitive=False)
        if ids[name] > 1 or names[field.field_id] > 1:
            yield f"{name}={field.field_id}"
        if len(types[field.field_id]) > 1:
            yield f"{name}:{field.field_type}"
        if field.initial_default is not None:
            yield f"{name}=default {field.initial_default!r}"


def map_missing_defaults(table: LoadedTable) -> dict[int, frozenset[str]]:
    """Maps each snapshot whose schema lacks columns that have a default value to the names of these, in lower case.

    Iceberg reads the default value in the rows of that time, but time travel to the snapshot does not know the column.
    A nested column counts as the column that it is in.
    """
    fields = _describe_schema(table.schema())["fields"]
    ids = [(field["name"].lower(), number) for field in fields for number in _list_ids_with_default(field)]
    lacking = {
        number: frozenset(name for name, field_id in ids if field_id not in schema.field_ids)
        for number, schema in table.schemas().items()
    }
    by_snapshot = ((snapshot.snapshot_id, snapshot.schema_id) for snapshot in table.metadata.snapshots)
    return {snapshot: names for snapshot, schema in by_snapshot if (names := lacking.get(schema or 0))}


def _list_ids_with_default(part: Any) -> Iterator[int]:
    """Yields the ids of the fields with a default value in a part of a schema's JSON: a field, a type, or a list."""
    if isinstance(part, list):
        for element in part:
            yield from _list_ids_with_default(element)
    elif isinstance(part, dict):
        if part.get("initial-default") is not None:
            yield part["id"]
        for name in ("type", "fields", "element", "key", "value"):
            yield from _list_ids_with_default(part.get(name))


def _describe_schema(schema: LoadedSchema) -> Json:
    """Returns the JSON of a schema."""
    described: Json = schema.described if isinstance(schema, JsonSchema) else json.loads(schema.model_dump_json())
    return described


def _to_schema(schema: LoadedSchema) -> Schema:
    return schema.to_schema() if isinstance(schema, JsonSchema) else schema


def _collect_types(schemas: Iterable[Schema]) -> dict[int, set[str]]:
    """Maps the id of each field to the texts of the types that it has had.

    All structs, lists and maps count as one type, the empty text.
    """
    types_by_field: dict[int, set[str]] = defaultdict(set)
    for schema in schemas:
        for name in schema.column_names:
            field = schema.find_field(name)
            types_by_field[field.field_id].add(str(field.field_type) if field.field_type.is_primitive else "")
    return types_by_field
