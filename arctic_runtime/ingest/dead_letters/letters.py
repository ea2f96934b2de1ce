"""Texts that dead letters and commits keep: schemas, versions, and the dead letters that a commit applied."""

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
"""Identifies a row of a dead letter: microseconds since 1970 when it was read, its part of the event, its number."""


def encode_schema(schema: SourceSchema) -> str:
    """Returns a schema as a dead letter keeps it."""
    return json.dumps(asdict(schema), separators=(",", ":"))


def decode_schema(text: str) -> SourceSchema:
    """Returns the schema of a text by `encode_schema`."""
    read = json.loads(text)
    columns = tuple(map(_decode_column, read["columns"]))
    return SourceSchema(columns, tuple(read["key"]), read.get("is_key_chosen", False))


def _decode_column(fields: Mapping[str, Any]) -> SourceColumn:
    older = fields.get("older_rows")
    read = {**fields, "labels": tuple(fields["labels"]), "older_rows": OlderRows(**older) if older else None}
    return SourceColumn(**read)


def encode_version(version: Version | None) -> str:
    """Returns a version as a dead letter keeps it; empty for a table that did not exist."""
    return "" if version is None else f"{version.table} {version.sequence}"


def decode_version(text: str) -> tuple[str, int] | None:
    """Returns the table's UUID and the sequence number of a text by `encode_version`; None without a table."""
    table, _, sequence = text.partition(" ")
    return (table, int(sequence)) if table else None


def encode_ids(ids: Sequence[DeadLetterId]) -> str:
    """Returns dead letters as the summary of a commit keeps them: ranges of numbers by time and part."""
    numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, part, number in sorted(ids):
        numbers[at, part].append(number)
    entries = [[at, part, list(_to_ranges(own))] for (at, part), own in numbers.items()]
    return json.dumps(entries, separators=(",", ":"))


def decode_ids(text: str) -> set[DeadLetterId]:
    """Returns the dead letters of a text by `encode_ids`."""
    ranges = ((at, part, first, last) for at, part, own in json.loads(text) for first, last in own)
    return {(at, part, number) for at, part, first, last in ranges for number in range(first, last + 1)}


def _to_ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields first and last of each run of ascending numbers."""
    indexes = count()
    for _, run in groupby(numbers, key=lambda number: number - next(indexes)):
        members = list(run)
        yield members[0], members[-1]
