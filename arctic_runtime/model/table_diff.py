"""Differences between two tables with the same key, and limits on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column
from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName

RowKind = Literal["added", "removed", "changed"]

KINDS: tuple[RowKind, ...] = get_args(RowKind)
NO_ROWS: Mapping[RowKind, int] = dict.fromkeys(KINDS, 0)

_LIMIT = re.compile(r"(added|removed|changed)>(\d+(?:\.\d+)?)(%?)")


@dataclass(frozen=True)
class ValueChange:
    """A value of a column that became another one, as texts, and the number of rows in which it did."""

    before: str | None
    after: str | None
    rows: int


@dataclass(frozen=True)
class ColumnDiff:
    """The changes of one column in rows that both tables have."""

    name: str
    rows: int
    """Number of rows with another value."""

    values: tuple[ValueChange, ...]
    """The most frequent changes, most frequent first."""


@dataclass(frozen=True)
class RowExample:
    """A row that differs: its key, and its values in both tables, as texts; None for a table without the row."""

    kind: RowKind
    key: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True)
class Counterpart:
    """The table of a model in another environment, and the masks of its columns as in `Model.masks`."""

    table: TableName
    masks: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class DiffCost:
    """The cost of a comparison; `rows` and `bytes` are those of the files that it read, None if they are not known.

    Files have all columns of a table, also those that were skipped.
    """

    seconds: float
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class TableDiff:
    """Differences between a table and another one: `added` rows are those that only the table has."""

    table: TableName
    other: TableName
    counts: Mapping[RowKind, int]
    other_rows: int | None
    """Number of rows of the other table; None if it was not asked for and is not known without a scan."""

    columns: tuple[ColumnDiff, ...] = ()
    added_columns: tuple[Column, ...] = ()
    removed_columns: tuple[Column, ...] = ()
    retyped_columns: tuple[tuple[str, str, str], ...] = ()
    """Names of columns with another type, and their types in the other table and in this one."""

    examples: tuple[RowExample, ...] = ()
    reads_changes: bool = False
    """Whether only the keys that changed since the two tables were one were compared, and not all rows."""

    versions: tuple[str, str] | None = None
    """The two versions of one table that were compared, the older one first; None for two tables."""

    key: tuple[str, ...] = ()
    """Columns of the primary key."""

    column_names: tuple[str, ...] = ()
    """Columns of both tables."""

    masked_columns: tuple[str, ...] = ()
    """Columns whose values are shown as hashes."""

    cost: DiffCost | None = field(default=None, compare=False)

    @property
    def differs(self) -> bool:
        return any(self.counts.values()) or bool(self.added_columns or self.removed_columns or self.retyped_columns)

    def mask_values(self, mask: Mask) -> TableDiff:
        """Returns the difference with hashes in the place of all values that `mask` hides."""
        examples = [
            replace(
                example,
                key=mask.hide_row(example.key) or {},
                before=mask.hide_row(example.before),
                after=mask.hide_row(example.after),
            )
            for example in self.examples
        ]
        columns = [replace(column, values=_mask_changes(column, mask)) for column in self.columns]
        names = (*self.column_names, *(column.name for column in (*self.added_columns, *self.removed_columns)))
        masked = tuple(name for name in names if mask.hides_column(name))
        return replace(self, columns=tuple(columns), examples=tuple(examples), masked_columns=masked)


def _mask_changes(column: ColumnDiff, mask: Mask) -> tuple[ValueChange, ...]:
    hidden = (
        (mask.hide_value(column.name, change.before), mask.hide_value(column.name, change.after), change.rows)
        for change in column.values
    )
    return tuple(ValueChange(*parts) for parts in hidden)


@dataclass(frozen=True)
class DiffLimit:
    """A number of rows of one kind that a difference may have, or their percentage of the other table's rows."""

    kind: RowKind
    most: float
    is_percentage: bool

    def is_exceeded(self, diff: TableDiff) -> bool:
        """Whether a difference has more rows than allowed; any rows exceed a percentage of a table without rows."""
        rows = diff.counts[self.kind]
        if not self.is_percentage:
            return rows > self.most
        return rows > 0 and 100 * rows > self.most * (diff.other_rows or 0)

    def __str__(self) -> str:
        return f"{self.kind}>{self.most:g}{'%' if self.is_percentage else ''}"


def read_diff_limits(label: str, value: Any) -> tuple[DiffLimit, ...]:
    """Reads limits such as `removed>0,changed>1%`; raises ConfigError for any other text."""
    limits = []
    for part in str(value).split(","):
        match = _LIMIT.fullmatch(part.replace(" ", ""))
        if match is None:
            raise ConfigError(
                f"`{label}` can't be read.",
                expected="limits on rows, such as `removed>0,changed>1%`",
                actual=part,
                fix="use `added`, `removed` or `changed`, then `>`, then a number of rows or a percentage",
            )
        kind: RowKind = match[1]  # type: ignore[assignment]
        limits.append(DiffLimit(kind, float(match[2]), bool(match[3])))
    return tuple(limits)
