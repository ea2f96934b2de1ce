"""Shape of a table's change rows: their actions, columns, constraints; and the change set, the rows of one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arctic_runtime.model.columns import SEQUENCE, Column, find_column, is_same_name, strip_change_columns
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.model.table import Model
from arctic_runtime.sql.types import format_struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


INSERT, UPDATE, DELETE, UPSERT = "insert", "update", "delete", "upsert"
"""Values of the column `_action` of change rows."""

NULL_KEY, DUPLICATE_KEY, NULL_COLUMN, BROKEN_CHECK = "!null key", "!duplicate key", "!null column", "!broken check"
UNSENT_VALUE = "!value that its source did not send"
FLAWS = (NULL_KEY, DUPLICATE_KEY, NULL_COLUMN, BROKEN_CHECK, UNSENT_VALUE)
"""Values of `_action` for rows that violate the key or the contract; they are counted on a branch, never published."""


@dataclass(frozen=True)
class Shape:
    """Shape of change rows: the table's columns, its key, and the constraints of a contract."""

    columns: tuple[Column, ...]
    """All columns of the table."""

    key: tuple[str, ...]
    """Names of the columns of the primary key."""

    given: tuple[str, ...]
    """Names of the columns that the query returns; other columns of the table keep their values."""

    sequence_type: str = "bigint"
    """Spark type of the column `_seq`."""

    is_ordered: bool = False
    """True if `_seq` has the values of the model's `sequence_by`; it is null in rows that come from no event."""

    not_null: tuple[str, ...] = ()
    """Names of the columns that must not be null."""

    checks: tuple[str, ...] = ()
    """SQL predicates that every row must fulfil."""

    def is_key(self, name: str) -> bool:
        return is_named(name, self.key)

    @property
    def key_positions(self) -> tuple[int, ...]:
        """Indexes in `columns` of the key's columns."""
        return tuple(i for i, column in enumerate(self.columns) if self.is_key(column.name))

    @property
    def rest_positions(self) -> tuple[int, ...]:
        """Indexes in `columns` of the columns outside the key."""
        return tuple(i for i, column in enumerate(self.columns) if not self.is_key(column.name))

    @property
    def rest(self) -> tuple[Column, ...]:
        """Columns outside the key."""
        return tuple(self.columns[i] for i in self.rest_positions)

    @property
    def keeps_more(self) -> bool:
        """Whether the table has columns that the query does not return."""
        return any(not is_named(column.name, self.given) for column in self.columns)

    @property
    def before_type(self) -> str | None:
        """Spark type of `_before`, a struct of the columns outside the key; None if there are no such columns."""
        return format_struct_type((column.name, column.type) for column in self.rest) if self.rest else None


def is_named(name: str, names: Sequence[str]) -> bool:
    """Whether `name` is one of `names`, ignoring case."""
    return any(is_same_name(name, other) for other in names)


def build_shape(model: Model, state: TableState, given: Sequence[Column]) -> Shape:
    """Builds the shape of a run's change rows; `given` are the columns that the query or the events return.

    All columns of the shape are those of the change table in `state`, which must exist.
    """
    assert state.changes is not None
    columns = strip_change_columns(state.changes.columns)
    sequence = find_column(state.changes.columns, SEQUENCE)
    return Shape(
        columns=columns,
        key=model.config.primary_key,
        given=tuple(column.name for column in given),
        sequence_type=sequence.type if sequence else "bigint",
        is_ordered=model.config.sequence_by is not None,
        not_null=model.not_null,
        checks=model.checks,
    )


@dataclass(frozen=True)
class ChangeSet:
    """Change rows that one commit appends to a change table, if its newest snapshot still is `commit.expected`."""

    commit: AppendChanges
    """The step that appends the rows."""

    rows: DataFrame
    """The change rows, with the columns of `shape` and the column `_action`."""

    shape: Shape
    """The columns, the key and the constraints of the rows."""

    summary: RunSummary
    """Record of the run, which becomes part of the summary of the commit."""

    is_gathered: bool = False
    """True if the number of partitions of `rows` fits their size; if False, they are rebalanced before the write."""

    confirm: Callable[[], None] = lambda: None
    """Called after all rows are written, and before readers can see them; if it raises, they are not published."""
