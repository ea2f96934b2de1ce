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
    """Change rows that one commit appends to a change table, if its newest snapshot still is `commit.expected`.

    `rows` has the columns of `shape`, and the column `_action`. `summary`, the record of the run, becomes part of the
    summary of the commit. If `is_gathered` is False, `rows` is rebalanced before it is written; if True, its number of
    partitions already fits its size. `confirm` is called after all rows are written and before readers can see them; if
    it raises an error, the rows are not published.
    """

    commit: AppendChanges
    rows: DataFrame
    shape: Shape
    summary: RunSummary
    is_gathered: bool = False
    confirm: Callable[[], None] = lambda: None
