"""Columns, and the names that a change row reserves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

ACTION: Final = "_action"
TIMESTAMP: Final = "_ts"
SEQUENCE: Final = "_seq"
BEFORE: Final = "_before"
POSITION: Final = "_position"

VALID_FROM: Final = "_valid_from"
VALID_TO: Final = "_valid_to"
IS_CURRENT: Final = "_is_current"
RECORDED_FROM: Final = "_recorded_from"
RECORDED_TO: Final = "_recorded_to"

CHANGE_COLUMNS: Final = (ACTION, TIMESTAMP, SEQUENCE, BEFORE)
METADATA: Final = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
OWN_PREFIX: Final = "__arctic_"
RESERVED: Final = (*CHANGE_COLUMNS, POSITION)
HISTORY_COLUMNS: Final = (VALID_FROM, VALID_TO, IS_CURRENT, RECORDED_FROM, RECORDED_TO)
"""Columns of a table with history: the interval in which a version is valid, whether it still is, and, in bitemporal
tables, the interval in which the table said so."""


@dataclass(frozen=True)
class Column:
    """A name, and a type as Spark writes it (`bigint`, `struct<a:int>`)."""

    name: str
    type: str


def is_same_name(left: str, right: str) -> bool:
    """Whether two column names are one to Spark, which does not look at case."""
    return left.lower() == right.lower()


def find_column(columns: tuple[Column, ...], name: str) -> Column | None:
    return next((column for column in columns if is_same_name(column.name, name)), None)


def strip_change_columns(change_columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """A change table's own columns, without those that say what happened."""
    return tuple(column for column in change_columns if column.name not in CHANGE_COLUMNS)


def build_history_columns(kind: str, is_bitemporal: bool) -> tuple[Column, ...]:
    """The columns of a table with history, in which versions are valid in intervals of type `kind`."""
    recorded = (Column(RECORDED_FROM, "timestamp"), Column(RECORDED_TO, "timestamp")) if is_bitemporal else ()
    return (Column(VALID_FROM, kind), Column(VALID_TO, kind), Column(IS_CURRENT, "boolean"), *recorded)


Names = Mapping[str, str]
"""Columns of today whose name was another one, or another column's, at some time → what they were called then.

The text is empty where there was no such column then.
"""


@dataclass(frozen=True)
class SchemaChange:
    """Columns to rename, from one name to another, to add, to widen and to drop, in this order."""

    add: tuple[Column, ...] = ()
    widen: tuple[Column, ...] = ()
    drop: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.add or self.widen or self.drop or self.rename)

    def describe_change(self) -> str:
        """The change in a line for people; an empty text for none."""
        parts = (
            *(f"{old} renamed to {new}" for old, new in self.rename),
            *(f"{column.name} added ({column.type})" for column in self.add),
            *(f"{column.name} widened to {column.type}" for column in self.widen),
            *(f"{name} dropped" for name in self.drop),
        )
        return ", ".join(parts)


def compare_columns(before: Mapping[int, Column], after: Mapping[int, Column]) -> SchemaChange:
    """Change between two sets of columns, each known by the id that it keeps whatever its name and type are."""
    both = [(before[number], column) for number, column in after.items() if number in before]
    return SchemaChange(
        add=tuple(column for number, column in after.items() if number not in before),
        widen=tuple(new for old, new in both if new.type != old.type),
        drop=tuple(column.name for number, column in before.items() if number not in after),
        rename=tuple((old.name, new.name) for old, new in both if new.name != old.name),
    )


def format_key(key: Iterable[str]) -> str:
    """The names of a key as one text; `parse_key` is the reverse."""
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in key)


def parse_key(text: str) -> tuple[str, ...]:
    """The names of a key that was kept as text; none for an empty text, the key of a table with one row."""
    parts = re.findall(r"(?:[^\\,]|\\.)+", text, flags=re.DOTALL)
    return tuple(re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts)
