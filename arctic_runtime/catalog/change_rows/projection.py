"""Maps Iceberg columns to Arrow types, and converts arrays from a file's columns to a table's columns by field id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arctic_runtime.catalog.foreign_types import get_foreign_name
from arctic_runtime.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.types import IcebergType, StructType


class UnreadableColumn(ConfigError):
    """Raised for a column of a type that only Spark can read, such as `variant`."""


def build_arrow_fields(struct: StructType) -> list[pa.Field]:
    """Builds the Arrow fields of the columns of `struct`, the current schema of a table.

    Raises UnreadableColumn for a column of a type that only Spark can read.
    """
    import pyarrow as pa

    return [pa.field(field.name, _to_arrow_type(field.field_type, field.name), True) for field in struct.fields]


def _to_arrow_type(kind: IcebergType, column: str) -> pa.DataType:
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.types import BinaryType, ListType, MapType, StringType, StructType

    match kind:
        case StructType(fields=fields):
            return pa.struct([(field.name, _to_arrow_type(field.field_type, column)) for field in fields])
        case ListType(element_type=element):
            return pa.list_(pa.field("element", _to_arrow_type(element, column)))
        case MapType(key_type=key, value_type=value):
            return pa.map_(_to_arrow_type(key, column), _to_arrow_type(value, column))
        case StringType():
            return pa.string()
        case BinaryType():
            return pa.binary()
        case _ if (foreign := get_foreign_name(str(kind))) is not None:
            raise UnreadableColumn(
                f"The column {column} can't be read without Spark.",
                actual=f"type {foreign}",
                fix="read the change rows by Spark: `arctic changes` without --format, or a query",
            )
    arrow_type: pa.DataType = schema_to_pyarrow(kind)
    return arrow_type


def project_columns(batch: pa.RecordBatch, own: StructType, wanted: StructType, fields: list[pa.Field]) -> pa.Table:
    """Converts a batch of rows from a file with the columns `own` to the columns `wanted`.

    `fields` are the Arrow fields of `wanted`. Columns are matched by their field ids. A column that the file lacks gets
    its default value, or null.
    """
    import pyarrow as pa

    places = {field.field_id: place for place, field in enumerate(own.fields)}
    arrays = []
    for field, arrow_field in zip(wanted.fields, fields, strict=True):
        place = places.get(field.field_id)
        if place is None:
            arrays.append(_fill_default(field.initial_default, len(batch), arrow_field.type))
        else:
            own_type = own.fields[place].field_type
            arrays.append(project_array(batch.column(place), own_type, field.field_type, arrow_field.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def project_array(array: pa.Array, own: IcebergType, wanted: IcebergType, arrow_type: pa.DataType) -> pa.Array:
    """Converts an array from its type in a file, `own`, to `wanted`, whose Arrow type is `arrow_type`.

    Fields of structs are matched by their ids, so renamed fields keep their values. A field that the file lacks gets
    its default value, or null.
    """
    import pyarrow as pa
    from pyiceberg.types import ListType, MapType, StructType

    if array.offset:
        array = array.take(pa.array(range(len(array))))  # Arrays of nested values can't be built of slices.
    match own, wanted:
        case StructType(), StructType():
            places = {field.field_id: place for place, field in enumerate(own.fields)}
            children = []
            for field, arrow_field in zip(wanted.fields, arrow_type, strict=True):
                place = places.get(field.field_id)
                children.append(
                    _fill_default(field.initial_default, len(array), arrow_field.type)
                    if place is None
                    else project_array(
                        array.field(place), own.fields[place].field_type, field.field_type, arrow_field.type
                    )
                )
            return pa.StructArray.from_arrays(children, fields=list(arrow_type), mask=array.is_null())
        case ListType(), ListType():
            values = project_array(array.values, own.element_type, wanted.element_type, arrow_type.value_type)
            return pa.ListArray.from_arrays(array.offsets, values, type=arrow_type, mask=array.is_null())
        case MapType(), MapType():
            keys = project_array(array.keys, own.key_type, wanted.key_type, arrow_type.key_type)
            items = project_array(array.items, own.value_type, wanted.value_type, arrow_type.item_type)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=arrow_type, mask=array.is_null())
    return array if array.type.equals(arrow_type) else array.cast(arrow_type)


def _fill_default(value: object, length: int, arrow_type: pa.DataType) -> pa.Array:
    import pyarrow as pa

    return pa.nulls(length, arrow_type) if value is None else pa.repeat(pa.scalar(value, arrow_type), length)
