"""The change rows of one commit, and the check before they are published."""

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

    `rows` have the columns of `shape`, and an action each. The commit's summary contains `summary`, the record of the
    run. If `is_gathered` is False, `rows` are rebalanced before they are written; if True, the number of their
    partitions already fits their size. `confirm` is called when all rows are written, before any reader sees them; it
    raises to stop the attempt.
    """

    commit: AppendChanges
    rows: DataFrame
    shape: Shape
    summary: RunSummary
    is_gathered: bool = False
    confirm: Callable[[], None] = lambda: None
