"""Converts pandas frames to Arrow tables whose column types Spark and Iceberg can store."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

_WIDER: Final = {
    pa.null(): pa.string(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
"""Arrow types that Spark lacks, with their replacements; a column that has only nulls becomes text."""

_PRECISION, _SCALE = 38, 18
"""Precision and scale of Spark's default type for Python decimals, so that values of later runs fit as well."""


def to_arrow(frame: Any) -> pa.Table:
    """Converts a pandas frame without its index; None, NA, NaT, and NaN in columns of floats become null.

    pandas writes NaN for missing numbers and texts, so a NaN can't be distinguished from a missing value. Raises
    pyarrow.ArrowInvalid or pyarrow.ArrowTypeError, which name the column, for values of several types in one column.
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    kinds = [
        _widen_decimal(kind) if str(dtype) == "object" else kind
        for kind, dtype in zip(table.schema.types, frame.dtypes, strict=True)
    ]
    return table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True))))


def to_storable(table: pa.Table) -> pa.Table:
    """Replaces each column type of an Arrow table that Spark lacks by a wider one."""
    return table.cast(pa.schema([(field.name, _to_storable(field.type)) for field in table.schema]))


def _to_storable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _to_storable(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_to_storable(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_to_storable(kind.key_type), _to_storable(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _to_storable(field.type)) for field in kind])
    return _WIDER.get(kind, kind)


def _widen_decimal(kind: pa.DataType) -> pa.DataType:
    """Widens a decimal type to a fixed precision and scale, since the inferred type depends on the values of each run.

    Other types are returned unchanged.
    """
    if not pa.types.is_decimal(kind):
        return kind
    fits = kind.scale <= _SCALE and kind.precision - kind.scale <= _PRECISION - _SCALE
    return pa.decimal128(_PRECISION, _SCALE if fits else max(kind.scale, 0))
