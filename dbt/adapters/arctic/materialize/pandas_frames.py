"""Frames of pandas as tables of Arrow, whose columns have types that Spark and Iceberg can store."""

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
"""Types of Arrow that Spark does not have. Only nulls are a text: what else they would be is not known."""

_PRECISION, _SCALE = 38, 18
"""Spark's own type for decimals of Python, in which values of another run fit as well."""


def to_arrow(frame: Any) -> pa.Table:
    """The frame without its index; every missing value is a null: None, NA, NaT, and NaN in columns of floats too.

    pandas itself writes NaN where a number or a text is missing, so that nothing tells the two apart. Raises
    pyarrow.ArrowInvalid and pyarrow.ArrowTypeError, which name the column, for values of several types in one column.
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    kinds = [
        _widen_decimal(kind) if str(dtype) == "object" else kind
        for kind, dtype in zip(table.schema.types, frame.dtypes, strict=True)
    ]
    return table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True))))


def to_storable(table: pa.Table) -> pa.Table:
    """The table with each type that Spark does not have replaced by a wider one."""
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
    """Of decimals in Python's objects Arrow tells the narrowest type, another one in every run."""
    if not pa.types.is_decimal(kind):
        return kind
    fits = kind.scale <= _SCALE and kind.precision - kind.scale <= _PRECISION - _SCALE
    return pa.decimal128(_PRECISION, _SCALE if fits else max(kind.scale, 0))
