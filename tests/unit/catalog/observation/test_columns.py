"""Columns with a default value, which rows from before the column was added have as well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType, StructType

from arctic_runtime.catalog.observation.columns import list_reassigned_columns, map_missing_defaults


def field(number: int, name: str, default: int | None = None) -> NestedField:
    kind = IntegerType() if default is not None else StringType()
    return NestedField(number, name, kind, required=False, initial_default=default)


def a_table(*schemas: Schema) -> Any:
    """A table with one snapshot of each schema; the last one is the current schema."""
    numbered = {schema.schema_id: schema for schema in schemas}
    snapshots = [SimpleNamespace(snapshot_id=10 + number, schema_id=number) for number in numbered]
    return SimpleNamespace(
        schemas=lambda: numbered, schema=lambda: schemas[-1], metadata=SimpleNamespace(snapshots=snapshots)
    )


def test_a_default_value_is_missing_in_snapshots_from_before_its_column() -> None:
    first = Schema(field(1, "id"), schema_id=0)
    second = Schema(field(1, "id"), field(2, "Net.Price", 7), schema_id=1)
    inner = NestedField(3, "place", StructType(field(4, "floor", 1)), required=False)
    third = Schema(field(1, "id"), field(2, "Net.Price", 7), inner, schema_id=2)
    table = a_table(first, second, third)
    assert map_missing_defaults(table) == {10: {"net.price", "place"}, 11: {"place"}}
    assert list(list_reassigned_columns(table)) == ["net.price=default 7", "place.floor=default 1"]
    assert map_missing_defaults(a_table(first, Schema(field(1, "id"), field(5, "x"), schema_id=1))) == {}
