"""Extracts parts of the column PAYLOAD, the JSON of events, as Spark expressions."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import Path
from arctic_runtime.ingest.transports.transport import PAYLOAD


def extract_payload_part(path: Path) -> Expression:
    """Builds the expression for the part of PAYLOAD at `path`, as text or JSON.

    Null if there is no such part, or if PAYLOAD is not JSON.
    """
    return F.get_json_object(F.col(PAYLOAD).cast("string"), "$" + "".join(f"['{name}']" for name in path))


def extract_schema_parts(paths: Sequence[Path]) -> Expression:
    """Builds the expression for the parts of PAYLOAD at `paths`, which describe an event's schema, as one JSON text.

    Null if PAYLOAD has none of these parts.
    """
    parts = F.to_json(F.struct(*map(extract_payload_part, paths)))
    return F.when(parts != F.lit("{}"), parts)
