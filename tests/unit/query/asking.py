"""Asks DuckDB a query of a catalog's tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName
from arctic_runtime.query.answer import answer_query
from arctic_runtime.query.engine import Limits
from arctic_runtime.query.relations import RelationLookup

NOW = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=timezone.utc)
KEY = b"k" * 32


def ask_reader(
    reader: CatalogReader,
    query: str,
    masks: Mapping[TableName, Mapping[str, bool]] | None = None,
    limits: Limits | None = None,
    is_utc: bool = True,
) -> list[dict[str, Any]]:
    """Returns the rows; a single word is a table of `dwd`, and columns whose names say it are masked by `KEY`."""
    lookup = RelationLookup(reader, "lake", {}, masks or {}, lambda own: Mask(KEY, own), "dwd")
    with answer_query(query, lookup, limits or Limits(), NOW, is_utc) as rows:
        return list(pa.Table.from_batches(list(rows.batches), rows.schema).to_pylist())
