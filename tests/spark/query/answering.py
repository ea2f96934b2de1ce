"""DuckDB's answer to a query over a warehouse."""

from __future__ import annotations

import datetime

import pyarrow as pa

from arctic_runtime.operations.masks import build_mask
from arctic_runtime.query.answer import answer_query
from arctic_runtime.query.engine import Limits
from arctic_runtime.query.relations import RelationLookup
from tests.spark.warehouse import Warehouse

NOW = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=datetime.timezone.utc)


def answer(lake: Warehouse, query: str) -> pa.Table:
    lookup = RelationLookup(lake.reader, "lake", {}, {}, build_mask)
    with answer_query(query, lookup, Limits(), NOW) as rows:
        return pa.Table.from_batches(list(rows.batches), rows.schema)
