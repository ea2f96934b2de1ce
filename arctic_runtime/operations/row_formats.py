"""File formats in which rows are exported: Arrow, JSON Lines and CSV, each encoded batch by batch."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

Encode = Callable[["pa.Schema", Iterable["pa.RecordBatch"]], Iterator[bytes]]
"""Function that encodes batches of rows of one schema; it yields the bytes of each batch as soon as it is read."""


class Rows(Protocol):
    """Rows that can be written in a format: their schema, and batches, which can be read once."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def batches(self) -> Iterable[pa.RecordBatch]: ...


@dataclass(frozen=True)
class RowFormat:
    """A file format of rows: its name, its media type, and its encoder.

    `is_binary` says that the encoded bytes are not text in UTF-8.
    """

    name: str
    media_type: str
    encode: Encode
    is_binary: bool = False


def encode_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encodes rows as an Arrow IPC stream."""
    import pyarrow as pa

    sink = _Sink()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take_bytes()
    yield sink.take_bytes()


def encode_json_lines(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encodes rows as JSON Lines: one object per row."""
    for batch in batches:
        rows = (dict(zip(schema.names, row, strict=True)) for row in iterate_rows([batch]))
        yield "".join(f"{_write_json(row)}\n" for row in rows).encode()


def encode_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encodes rows as CSV with a header. A null is an empty field without quotes, texts are in quotes.

    Structs, arrays and maps are JSON texts.
    """
    import pyarrow as pa
    from pyarrow.csv import WriteOptions, write_csv

    def write(batch: pa.RecordBatch, has_header: bool) -> bytes:
        sink = pa.BufferOutputStream()
        arrays = [_to_csv_array(array) for array in batch.columns]
        write_csv(pa.table(arrays, names=schema.names), sink, WriteOptions(include_header=has_header))
        written: bytes = sink.getvalue().to_pybytes()
        return written

    yield write(pa.RecordBatch.from_pylist([], schema), True)
    for batch in batches:
        yield write(batch, False)


def encode_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encodes rows as a Parquet file with a row group for each batch."""
    from pyarrow.parquet import ParquetWriter

    sink = _Sink()
    with ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take_bytes()
    yield sink.take_bytes()


PARQUET = RowFormat("parquet", "application/vnd.apache.parquet", encode_parquet, is_binary=True)
"""The format for files, whose rows can be read only once it is complete."""


ROW_FORMATS: Mapping[str, RowFormat] = {
    known.name: known
    for known in (
        RowFormat("arrow", "application/vnd.apache.arrow.stream", encode_arrow, is_binary=True),
        RowFormat("json", "application/jsonl", encode_json_lines),
        RowFormat("csv", "text/csv", encode_csv),
    )
}
"""All formats of rows by name."""

FORMATS_BY_MEDIA_TYPE: Mapping[str, RowFormat] = {known.media_type: known for known in ROW_FORMATS.values()}
"""All formats of rows by media type; clients that accept any format of a stream get the first."""


def iterate_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Yields the values of each row in the order of the columns, as values of JSON, as JSON Lines have them."""
    for batch in batches:
        yield from zip(*(_convert_column(array) for array in batch.columns), strict=True)


def convert_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the values of a row to values of JSON, as JSON Lines have them."""
    return {name: _convert_value(value) for name, value in row.items()}


class _Sink:
    """A file object that keeps written bytes until they are taken."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def write(self, part: bytes) -> int:
        self._parts.append(bytes(part))
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        """Returns the number of bytes that were written."""
        return self._written

    def flush(self) -> None:
        """Does nothing, since written bytes are kept at once."""

    def close(self) -> None:
        """Does nothing, since there is no file."""

    def take_bytes(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _write_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _to_csv_array(array: pa.Array) -> pa.Array:
    """Converts an array to a type that pyarrow can write to CSV: structs, arrays and maps to JSON, others to text.

    Numbers, booleans and texts stay as they are.
    """
    import pyarrow as pa

    kind = array.type
    is_plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_string)
    if pa.types.is_null(kind) or any(is_kind(kind) for is_kind in is_plain):
        return array
    values = _convert_column(array)
    if pa.types.is_nested(kind):
        values = [None if value is None else _write_json(value) for value in values]
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _convert_column(array: pa.Array) -> list[Any]:
    convert = _build_converter(array.type)
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _build_converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """Builds the function that converts values of an Arrow type to values that JSON can represent; nulls excepted."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        parts = {field.name: _build_nullable_converter(field.type) for field in kind}
        return lambda value: {name: convert(value[name]) for name, convert in parts.items()}
    if pa.types.is_map(kind):
        convert_item = _build_nullable_converter(kind.item_type)
        convert_key = _build_converter(kind.key_type)
        return lambda value: {_to_json_key(convert_key(key)): convert_item(item) for key, item in value}
    if pa.types.is_list(kind):
        convert_element = _build_nullable_converter(kind.value_type)
        return lambda value: [convert_element(element) for element in value]
    return _convert_value


def _build_nullable_converter(kind: pa.DataType) -> Callable[[Any], Any]:
    convert = _build_converter(kind)
    return lambda value: None if value is None else convert(value)


def _to_json_key(value: Any) -> str:
    return value if isinstance(value, str) else _write_json(value)


def _convert_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case dict():
            return {_to_json_key(_convert_value(key)): _convert_value(part) for key, part in value.items()}
        case list() | tuple():
            return [_convert_value(part) for part in value]
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case datetime() if value.tzinfo is not None:
            return value.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case float():
            return value
        case Decimal():
            return format(value, "f")
    return str(value)
