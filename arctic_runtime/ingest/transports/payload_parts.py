"""Parts of the JSON of events, as expressions over PAYLOAD."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import Path
from arctic_runtime.ingest.transports.transport import PAYLOAD


def extract_part(path: Path) -> Expression:
    """The text or the JSON at a path; null where an event has none, and in what is not JSON."""
    return F.get_json_object(F.col(PAYLOAD).cast("string"), "$" + "".join(f"['{name}']" for name in path))


def extract_schema_parts(paths: Sequence[Path]) -> Expression:
    """The parts of an event that tell its schema, as one text; null for an event that tells none."""
    parts = F.to_json(F.struct(*map(extract_part, paths)))
    return F.when(parts != F.lit("{}"), parts)
