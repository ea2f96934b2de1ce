"""Differences between two tables with the same key, and limits on them."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName

RowKind = Literal["added", "removed", "changed"]

KINDS: tuple[RowKind, ...] = get_args(RowKind)

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
class TableDiff:
    """Differences between a table and another one: `added` rows are those that only the table has."""

    table: TableName
    other: TableName
    counts: Mapping[RowKind, int]
    other_rows: int
    """Number of rows of the other table."""

    columns: tuple[ColumnDiff, ...] = ()
    added_columns: tuple[Column, ...] = ()
    removed_columns: tuple[Column, ...] = ()
    retyped_columns: tuple[tuple[str, str, str], ...] = ()
    """Names of columns with another type, and their types in the other table and in this one."""

    versions: tuple[str, str] | None = None
    """The two versions, if a table is compared with itself; the second one is empty for the newest."""

    seconds: float = field(default=0.0, compare=False)
    """Duration of the comparison."""

    examples: tuple[RowExample, ...] = ()
    reads_changes: bool = False
    """Whether only the keys that changed since the two tables were one were compared, and not all rows."""

    @property
    def differs(self) -> bool:
        return any(self.counts.values()) or bool(self.added_columns or self.removed_columns or self.retyped_columns)


def mask_diff(diff: TableDiff, columns: Collection[str], secret: bytes) -> TableDiff:
    """Returns a difference in which the values of `columns` are hashes; null stays null.

    Equal values of a column have equal hashes. They are keyed by `secret`, so that nobody can find a value by hashing
    the likely ones.
    """
    masked = {name.lower() for name in columns}

    def hide(name: str, value: Any) -> Any:
        if value is None or name.lower() not in masked:
            return value
        digest = hmac.new(secret, f"{name.lower()}\0{value}".encode(errors="surrogatepass"), "sha256").hexdigest()
        return f"#{digest[:10]}"

    def hide_all(row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return None if row is None else {name: hide(name, value) for name, value in row.items()}

    if not masked:
        return diff
    columns_hidden = tuple(
        replace(
            column,
            values=tuple(
                replace(change, before=hide(column.name, change.before), after=hide(column.name, change.after))
                for change in column.values
            ),
        )
        for column in diff.columns
    )
    examples_hidden = tuple(
        replace(
            example,
            key=hide_all(example.key) or {},
            before=hide_all(example.before),
            after=hide_all(example.after),
        )
        for example in diff.examples
    )
    return replace(diff, columns=columns_hidden, examples=examples_hidden)


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
        return rows > 0 and 100 * rows > self.most * diff.other_rows

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
