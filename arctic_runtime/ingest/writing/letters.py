"""Dead letters as a writer takes them from a batch: decoded events, and where they stand among others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from arctic_runtime.ingest.formats.event_format import OlderRows, SourceColumn, SourceSchema
from arctic_runtime.model.version import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Letters:
    """Decoded events of a table, dead letters among them.

    `since` is the version of the table's change table just before the events, None where there was none. `schema` is
    that of the events where their transport knew it. `emptied_at` is the place of the last event that empties the
    table, after which those before it mean nothing; None where there is none.
    """

    decoded: DataFrame
    since: Version | None
    schema: SourceSchema | None
    emptied_at: int | None = None


TakeDead = Callable[[Letters], None]
"""Keeps dead letters before the commit of the sound events that came with them, and drops those that mean nothing."""


def schema_text(schema: SourceSchema) -> str:
    """A schema as a dead letter keeps it."""
    return json.dumps(asdict(schema), separators=(",", ":"))


def read_schema(text: str) -> SourceSchema:
    """What `schema_text` wrote."""
    read = json.loads(text)
    return SourceSchema(tuple(map(_read_column, read["columns"])), tuple(read["key"]), read.get("is_key_chosen", False))


def _read_column(of: Mapping[str, Any]) -> SourceColumn:
    older = of.get("older_rows")
    return SourceColumn(**{**of, "labels": tuple(of["labels"]), "older_rows": OlderRows(**older) if older else None})


def since_text(version: Version | None) -> str:
    """A version as a dead letter keeps it; empty for a table that was not there."""
    return "" if version is None else f"{version.table} {version.sequence}"


def read_since(text: str) -> tuple[str, int] | None:
    """What `since_text` wrote: the table's UUID and the sequence number; None for a table that was not there."""
    table, _, sequence = text.partition(" ")
    return (table, int(sequence)) if table else None
