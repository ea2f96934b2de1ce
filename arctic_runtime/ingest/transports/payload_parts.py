"""Extracts parts of the payload of events, which is JSON, as expressions over PAYLOAD."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import Path
from arctic_runtime.ingest.transports.transport import PAYLOAD


def extract_payload_part(path: Path) -> Expression:
    """Builds the expression for the text or JSON at `path` of a payload; null if it has none, or is not JSON."""
    return F.get_json_object(F.col(PAYLOAD).cast("string"), "$" + "".join(f"['{name}']" for name in path))


def extract_schema_parts(paths: Sequence[Path]) -> Expression:
    """Builds the expression for the parts of a payload that describe its schema, as one text; null if it has none."""
    parts = F.to_json(F.struct(*map(extract_payload_part, paths)))
    return F.when(parts != F.lit("{}"), parts)
