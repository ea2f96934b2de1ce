"""The context in which steps are performed: the observed state of a model's tables, Spark and the catalog."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.files.bounds import Bound
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.spark.tables.commit import Attempt
from arctic_runtime.thresholds import Thresholds


@dataclass(frozen=True)
class Appended:
    """A commit of change rows to a change table."""

    after: int
    """Id of the snapshot on top of which the commit was made."""

    rows: dict[str, int]
    """Numbers of change rows by action."""

    replaced: tuple[Bound, ...] | None = None
    """Bounds of keys and partitions that contain all rows of the base table which the change rows replace.

    None if no row is replaced, or if the bounds were not collected.
    """

    frozen: int = 0
    """Number of changes that were not applied, since they would touch frozen rows."""

    because: str = ""
    """Text for users about a special event, such as a rebase; empty if there was none."""

    @property
    def replaced_rows(self) -> int:
        """Number of the base table's rows that the change rows replace; with upserts, the most that it can be."""
        return sum(self.rows.values()) - self.rows["insert"]


@dataclass(frozen=True)
class Context:
    """The context in which steps are performed: the observed state, with the token and the time of the attempt."""

    spark: SparkSession
    reader: CatalogReader
    model: Model
    state: TableState
    token: str
    """Part of the names of the attempt's branches, by which its commits are recognized."""

    now: datetime.datetime
    appended: Appended | None = None
    """Newest commit of change rows by this run; None without one."""

    tell: Callable[[str], None] = lambda _: None
    """Called with lines for people about the progress of a long step."""

    @property
    def attempt(self) -> Attempt:
        """The attempt to commit in this context, with the same token."""
        return Attempt(self.spark, self.reader, self.token, self.thresholds.commits)

    @property
    def thresholds(self) -> Thresholds:
        return self.reader.thresholds
