"""Baseline of a change table: the snapshot of a table that has the rows from before the first change row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BASELINE, BASELINE_TAG_PREFIX


@dataclass(frozen=True)
class Baseline:
    """A snapshot whose rows a change table continues, so that it needs no change rows that insert them.

    Rows with a change row after `sequence` are in the change table; all other rows are in the snapshot.
    """

    table: TableName
    """The table of the snapshot."""

    snapshot: int
    """Id of the snapshot, which a tag keeps from expiry."""

    sequence: int = 0
    """Sequence number of the change table up to which the snapshot contains the changes; 0 if it contains none."""

    at_ms: int = 0
    """Commit time of the snapshot, in milliseconds since 1970."""

    spec: int = 0
    """Id of the partition spec that the table had before it became a part of the model."""

    is_sorted: bool = False
    """Whether the table had a sort order before."""

    properties: tuple[tuple[str, str | None], ...] = ()
    """Names and former values of the properties that a base table sets; None for a property that was not set."""

    @property
    def tag(self) -> str:
        """Name of the tag that keeps the snapshot."""
        return f"{BASELINE_TAG_PREFIX}{self.snapshot}"

    def encode(self) -> str:
        """Returns the baseline as JSON, for a property of the change table."""
        return json.dumps(
            {**vars(self), "table": self.table.parts, "properties": dict(self.properties)}, separators=(",", ":")
        )


@dataclass(frozen=True)
class PlainTable:
    """A table of other writers at its newest snapshot, which a model can adopt."""

    name: TableName
    snapshot: int
    at_ms: int
    """Commit time of the snapshot, in milliseconds since 1970."""

    rows: int
    bytes: int
    columns: tuple[Column, ...]
    format_version: int
    spec: int
    """Id of the partition spec for new files."""

    is_sorted: bool
    """Whether the table has a sort order."""

    properties: Mapping[str, str]


def read_baseline(properties: Mapping[str, str]) -> Baseline | None:
    """Reads the baseline from the properties of a change table; None if the change table has all rows itself.

    Raises CorruptState if the property can't be read.
    """
    text = properties.get(BASELINE)
    if text is None:
        return None
    try:
        fields = json.loads(text)
        former = tuple(fields.get("properties", {}).items())
        return Baseline(**{**fields, "table": TableName(*fields["table"]), "properties": former})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptState(
            f"The property {BASELINE} of a change table can't be read.",
            expected="JSON with a table and a snapshot",
            actual=text,
            fix="restore the property from an older metadata file of the table",
        ) from error
