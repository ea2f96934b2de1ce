"""Builds the columns of a table from the Avro schema of its rows.

Source: the specification of Apache Avro 1.12, "Logical Types". Values are those of a record that was decoded to JSON
without its logical types: decimals are base64 of their bytes, and times are counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from arctic_runtime.ingest.formats.avro_schema import AvroType, strip_null
from arctic_runtime.ingest.formats.connect_schema import MOST_DIGITS, MappedType
from arctic_runtime.ingest.formats.event_format import SourceColumn

_MOST_BYTES = 16
"""Bytes of the unscaled number of a decimal with MOST_DIGITS digits."""

_AS_JSON: MappedType = ("string", "json")


def build_avro_column(name: str, kind: AvroType) -> SourceColumn:
    """Builds the column of a record's field; records, maps and unions of several types are kept as JSON."""
    own = strip_null(kind)
    if own["type"] == "array":
        type_, element = _map_type(own["items"])
        return SourceColumn(name, f"array<{type_}>", "array", element=element)
    return SourceColumn(name, *_map_type(own))


def _map_type(kind: AvroType) -> MappedType:
    own = strip_null(kind)
    logical = _LOGICAL.get((own.get("logicalType", ""), own["type"]))
    mapped = logical(own) if callable(logical) else logical
    return mapped or _PLAIN.get(own["type"], _AS_JSON)


def _map_decimal(kind: AvroType) -> MappedType | None:
    """Returns the type of a decimal; None, so that its bytes are kept, if it has too many digits or bytes for one."""
    digits, scale = int(kind.get("precision", 0)), int(kind.get("scale", 0))
    if not 0 < digits <= MOST_DIGITS or not 0 <= scale <= digits or kind.get("size", 0) > _MOST_BYTES:
        return None
    return f"decimal({digits},{scale})", "base64_decimal"


_Rule = MappedType | Callable[[AvroType], MappedType | None]

_PLAIN: Mapping[str, MappedType] = {
    "boolean": ("boolean", "plain"),
    "int": ("int", "plain"),
    "long": ("bigint", "plain"),
    "float": ("float", "plain"),
    "double": ("double", "plain"),
    "bytes": ("binary", "base64"),
    "fixed": ("binary", "base64"),
    "string": ("string", "plain"),
    "enum": ("string", "plain"),
    "null": ("string", "plain"),
}

_LOGICAL: Mapping[tuple[str, str], _Rule] = {
    ("decimal", "bytes"): _map_decimal,
    ("decimal", "fixed"): _map_decimal,
    ("date", "int"): ("date", "epoch_days"),
    ("time-millis", "int"): ("string", "millis_of_day"),
    ("time-micros", "long"): ("string", "micros_of_day"),
    ("timestamp-millis", "long"): ("timestamp", "epoch_millis"),
    ("timestamp-micros", "long"): ("timestamp", "epoch_micros"),
    ("timestamp-nanos", "long"): ("timestamp", "epoch_nanos"),
    ("local-timestamp-millis", "long"): ("timestamp_ntz", "epoch_millis"),
    ("local-timestamp-micros", "long"): ("timestamp_ntz", "epoch_micros"),
    ("local-timestamp-nanos", "long"): ("timestamp_ntz", "epoch_nanos"),
}
"""Spark type and encoding by logical type and the type below it; other pairs are ignored, as Avro demands."""
