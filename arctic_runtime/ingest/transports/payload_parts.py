"""Extracts parts of the payload of events, which is JSON, as expressions over PAYLOAD."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import Path
from arctic_runtime.ingest.transports.transport import PAYLOAD


def extract_payload_part(path: Path) -> Expression:
    """Builds the expression for the part of PAYLOAD at `path`, as text or JSON.

    Null if there is none or it is not JSON.
    """
    return F.get_json_object(F.col(PAYLOAD).cast("string"), "$" + "".join(f"['{name}']" for name in path))


def extract_schema_parts(paths: Sequence[Path]) -> Expression:
    """Builds the expression for the parts of a payload at `paths`, which describe its schema, as one text.

    Null if the payload has none.
    """
    parts = F.to_json(F.struct(*map(extract_payload_part, paths)))
    return F.when(parts != F.lit("{}"), parts)
