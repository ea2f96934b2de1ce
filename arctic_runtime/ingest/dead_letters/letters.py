"""Encodes as text the schemas, table versions and lists of applied dead letters that dead letters and commits store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count, groupby
from typing import Any

from arctic_runtime.ingest.formats.event_format import OlderRows, SourceColumn, SourceSchema
from arctic_runtime.model.version import Version

DeadLetterId = tuple[int, int, int]
"""The id of a row of a dead letter table: read time in microseconds since 1970, `part`, and `number`.

`part` is the index of the changed row in an event with several rows, else -1; `number` is higher for later events.
"""


def encode_schema(schema: SourceSchema) -> str:
    """Encodes a schema as JSON, to be stored with a dead letter."""
    return json.dumps(asdict(schema), separators=(",", ":"))


def decode_schema(text: str) -> SourceSchema:
    """Decodes a schema from JSON that `encode_schema` wrote."""
    read = json.loads(text)
    columns = tuple(map(_decode_column, read["columns"]))
    return SourceSchema(columns, tuple(read["key"]), read.get("is_key_chosen", False))


def _decode_column(fields: Mapping[str, Any]) -> SourceColumn:
    older = fields.get("older_rows")
    read = {**fields, "labels": tuple(fields["labels"]), "older_rows": OlderRows(**older) if older else None}
    return SourceColumn(**read)


def encode_version(version: Version | None) -> str:
    """Encodes a table's version as text, to be stored with a dead letter; empty for None (the table does not exist)."""
    return "" if version is None else f"{version.table} {version.sequence}"


def decode_version(text: str) -> tuple[str, int] | None:
    """Decodes text of `encode_version` to the table's UUID and the sequence number; None if the table did not exist."""
    table, _, sequence = text.partition(" ")
    return (table, int(sequence)) if table else None


def encode_ids(ids: Sequence[DeadLetterId]) -> str:
    """Encodes the ids of dead letters as JSON for the summary of a commit; consecutive numbers become one range."""
    numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, part, number in sorted(ids):
        numbers[at, part].append(number)
    entries = [[at, part, list(_to_ranges(own))] for (at, part), own in numbers.items()]
    return json.dumps(entries, separators=(",", ":"))


def decode_ids(text: str) -> set[DeadLetterId]:
    """Decodes the ids of dead letters from JSON that `encode_ids` wrote."""
    ranges = ((at, part, first, last) for at, part, own in json.loads(text) for first, last in own)
    return {(at, part, number) for at, part, first, last in ranges for number in range(first, last + 1)}


def _to_ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields the first and last number of each run of consecutive numbers."""
    indexes = count()
    for _, run in groupby(numbers, key=lambda number: number - next(indexes)):
        members = list(run)
        yield members[0], members[-1]
