"""Columns of tables, changes of these, and the column names that are reserved for change rows and history."""

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

CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"

CHANGE_COLUMNS: Final = (ACTION, TIMESTAMP, SEQUENCE, BEFORE)
METADATA: Final = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
OWN_PREFIX: Final = "__arctic_"
RESERVED: Final = (*CHANGE_COLUMNS, POSITION)
HISTORY_COLUMNS: Final = (VALID_FROM, VALID_TO, IS_CURRENT, RECORDED_FROM, RECORDED_TO)
"""Columns of a table with history, which has one row for each version of a row of the query.

They are the interval in which the version is valid, whether it is current, and, in bitemporal tables, the interval in
which the table contained the version.
"""


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, and its type as Spark writes it (`bigint`, `struct<a:int>`)."""

    name: str
    type: str


FEED_COLUMNS: Final = (
    Column(CHANGE_TYPE, "string"),
    Column(COMMIT_VERSION, "bigint"),
    Column(COMMIT_TIMESTAMP, "timestamp"),
)
"""Columns of a change data feed in addition to those of the table, with the names that Delta gives them."""


def is_same_name(left: str, right: str) -> bool:
    """Whether two column names are the same to Spark, which ignores case."""
    return left.lower() == right.lower()


def find_column(columns: tuple[Column, ...], name: str) -> Column | None:
    return next((column for column in columns if is_same_name(column.name, name)), None)


def list_reserved(names: Iterable[str], has_change_table: bool) -> tuple[str, ...]:
    """Returns those of `names` that no column of a table can have, sorted.

    They are names of Iceberg and dbt-arctic, and for a table with a change table also those of change rows.
    """
    reserved = (*METADATA, *(RESERVED if has_change_table else ()))
    return tuple(sorted(name for name in names if name.lower() in reserved or name.lower().startswith(OWN_PREFIX)))


def strip_change_columns(change_columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Returns the model's columns: those of its change table without `_action`, `_ts`, `_seq` and `_before`."""
    return tuple(column for column in change_columns if column.name not in CHANGE_COLUMNS)


def build_history_columns(kind: str, is_bitemporal: bool) -> tuple[Column, ...]:
    """Returns the columns that a table with history has in addition to those of its query.

    `kind` is the Spark type of `_valid_from` and `_valid_to`. Bitemporal tables also have the times at which a version
    was recorded, as timestamps.
    """
    recorded = (Column(RECORDED_FROM, "timestamp"), Column(RECORDED_TO, "timestamp")) if is_bitemporal else ()
    return (Column(VALID_FROM, kind), Column(VALID_TO, kind), Column(IS_CURRENT, "boolean"), *recorded)


Names = Mapping[str, str]
"""Maps current column names to the columns' names at an earlier snapshot, for columns whose names differ.

The earlier name is empty if the column did not exist at that snapshot.
"""


@dataclass(frozen=True)
class SchemaChange:
    """A change of a table's columns: renames (old name, new name), added columns, wider types and dropped columns.

    The parts are applied in this order: `rename`, `add`, `widen`, `drop`.
    """

    add: tuple[Column, ...] = ()
    widen: tuple[Column, ...] = ()
    drop: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.add or self.widen or self.drop or self.rename)

    def describe_change(self) -> str:
        """Describes the change in one line for users; empty if nothing changes."""
        parts = (
            *(f"{old} renamed to {new}" for old, new in self.rename),
            *(f"{column.name} added ({column.type})" for column in self.add),
            *(f"{column.name} widened to {column.type}" for column in self.widen),
            *(f"{name} dropped" for name in self.drop),
        )
        return ", ".join(parts)


def compare_columns(before: Mapping[int, Column], after: Mapping[int, Column]) -> SchemaChange:
    """Computes the change from the columns `before` to the columns `after`, both by column id.

    A column keeps its id if its name or its type changes.
    """
    both = [(before[number], column) for number, column in after.items() if number in before]
    return SchemaChange(
        add=tuple(column for number, column in after.items() if number not in before),
        widen=tuple(new for old, new in both if new.type != old.type),
        drop=tuple(column.name for number, column in before.items() if number not in after),
        rename=tuple((old.name, new.name) for old, new in both if new.name != old.name),
    )


def format_key(key: Iterable[str]) -> str:
    """Formats the column names of a key as one text, for a table property; `parse_key` parses it."""
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in key)


def parse_key(text: str) -> tuple[str, ...]:
    """Parses the text of a key, as `format_key` writes it, to column names.

    An empty text is the empty key, that of a table with a single row.
    """
    parts = re.findall(r"(?:[^\\,]|\\.)+", text, flags=re.DOTALL)
    return tuple(re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts)
