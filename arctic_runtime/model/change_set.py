"""A change set: the change rows of one commit to a change table, and the check before they are published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.step import AppendChanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
