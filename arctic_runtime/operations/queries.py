"""Answers queries of agents and of clients of a service: within limits, with masked columns, and in the audit log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.operations.row_formats import iterate_rows
from arctic_runtime.thresholds import QueryThresholds

if TYPE_CHECKING:
    import pyarrow as pa

    from arctic_runtime.operations.operation import Audit
    from arctic_runtime.query.relations import RelationLookup


class TooManyQueries(ArcticError):
    """Raised if a service answers as many queries as it may at the same time."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} queries run already, which is the limit.", fix="ask again when one has ended")


@dataclass(frozen=True)
class QueryAnswer:
    """The rows of a query. `types` are the types of the columns as Spark writes them.

    `is_cut` says that there are more rows than were asked for, and `seconds` is the time that the answer took.
    """

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]
    types: tuple[str, ...]
    is_cut: bool
    seconds: float

    def iterate_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yields the values of each row in the order of the columns, as JSON Lines have them."""
        return iterate_rows(self.batches)


def answer_limited_query(query: str, lookup: RelationLookup, limit: int | None, audit: Audit) -> QueryAnswer:
    """Answers a query by DuckDB with at most `limit` rows; the names of its tables are in the audit log.

    Without a limit, an answer is whole. Raises ConfigError if the answer is larger than `QueryThresholds` allow, and
    the errors of `answer_query`.
    """
    from arctic_runtime.query.answer import answer_query
    from arctic_runtime.query.engine import Limits

    most, started = lookup.reader.thresholds.queries, time.monotonic()
    wanted = most.rows if limit is None else min(limit, most.rows)
    sizes = {"memory": f"{most.memory_mb}MB", "spilled": f"{most.spilled_mb}MB"}
    # One row more tells a whole answer from a part of it.
    limits = Limits(max_rows=wanted + 1, seconds=most.seconds, **sizes)
    with answer_query(query, lookup, limits, datetime.now(timezone.utc), lookup.is_utc) as rows:
        audit({"operation": "sql", "tables": [str(table) for table in lookup.list_tables()]})
        batches = list(_take_bytes(rows.batches, most))
        schema, types = rows.schema, rows.types
    is_cut = sum(batch.num_rows for batch in batches) > wanted
    if is_cut and wanted != limit:
        raise _build_size_error(f"{most.rows:,} rows")
    shown = _take_rows(batches, wanted)
    return QueryAnswer(schema, tuple(shown), types, is_cut, time.monotonic() - started)


def _take_bytes(batches: Iterator[pa.RecordBatch], most: QueryThresholds) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > most.answer_bytes:
            raise _build_size_error(f"{most.answer_bytes:,} bytes")
        yield batch


def _take_rows(batches: list[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if most > 0:
            yield batch.slice(0, most)
        most -= batch.num_rows


def _build_size_error(most: str) -> ConfigError:
    return ConfigError(
        f"The answer has more than {most}, which is the limit.",
        fix="group the rows or give a `limit`, or write all of them by `arctic sql --format`",
    )
