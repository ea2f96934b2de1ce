"""Arrays of old files as arrays of the present columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from arctic_runtime.catalog.change_rows.projection import build_arrow_fields, project_array

OLD = StructType(NestedField(1, "a", IntegerType()), NestedField(2, "gone", StringType()))
NEW = StructType(NestedField(1, "renamed", LongType()), NestedField(3, "added", StringType()))


def nest(inner: StructType) -> StructType:
    """A struct, a list of structs, a map of structs and a list of maps of structs."""
    return StructType(
        NestedField(10, "one", inner),
        NestedField(11, "many", ListType(20, inner)),
        NestedField(12, "named", MapType(21, StringType(), 22, inner)),
        NestedField(13, "deep", ListType(23, MapType(24, StringType(), 25, inner))),
    )


def build_rows(known: object) -> list[object]:
    whole = {"one": known, "many": [known, None], "named": [("k", known), ("n", None)], "deep": [[("k", known)], None]}
    return [whole, None, {"one": None, "many": None, "named": None, "deep": None}, {**whole, "many": [], "deep": []}]


@pytest.mark.parametrize("start", [0, 1, 3])
def test_fields_are_matched_by_id_and_nulls_stay_at_every_depth_also_in_slices(start: int) -> None:
    own, wanted = nest(OLD), nest(NEW)
    (own_field,), (wanted_field,) = (
        build_arrow_fields(StructType(NestedField(30, "v", kind))) for kind in (own, wanted)
    )
    array = pa.array(build_rows({"a": 1, "gone": "x"}), own_field.type).slice(start)
    projected = project_array(array, own, wanted, wanted_field.type)
    projected.validate(full=True)
    assert projected.type == wanted_field.type
    assert (
        projected.to_pylist()
        == pa.array(build_rows({"renamed": 1, "added": None}), wanted_field.type)[start:].to_pylist()
    )


def test_an_added_field_has_its_default_in_old_files() -> None:
    wanted = StructType(NestedField(1, "a", IntegerType()), NestedField(3, "n", LongType(), initial_default=7))
    (field,) = build_arrow_fields(StructType(NestedField(30, "v", wanted)))
    array = pa.array([{"a": 1, "gone": "x"}, None], pa.struct([("a", pa.int32()), ("gone", pa.string())]))
    assert project_array(array, OLD, wanted, field.type).to_pylist() == [{"a": 1, "n": 7}, None]
