"""Inputs from which one attempt computes change rows, the rows that it caches meanwhile, and the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.spark.engine.parallel import Parallel
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.bounds import EVERYWHERE, lookup_keys
from arctic_runtime.spark.tables.rows.frames import Keys, as_key, read_current_rows, read_folded_rows, to_column
from arctic_runtime.thresholds import Thresholds


@dataclass(frozen=True)
class Computed:
    """Change rows that are computed but not written, with the summary for their commit.

    `is_gathered`: the number of partitions of `rows` already fits their size. `is_pinned`: all inputs were read at the
    versions in the offsets, so later commits do not matter. `as_decided`: the rows were computed by the method whose
    cost was estimated. `keys`: estimated number of lookups in the table while the rows are written; 0 means unknown.
    """

    rows: DataFrame
    summary: RunSummary = field(default_factory=RunSummary)
    is_gathered: bool = False
    is_pinned: bool = True
    as_decided: bool = True
    keys: int = 0


@dataclass(frozen=True)
class RefreshInputs:
    """Inputs from which the change rows of one attempt are computed.

    Work in the `background` has to finish before the change rows are published. Plans have join hints if
    `has_join_hints`. The analysis of the query is trusted if Spark reads the query in the same way (`is_same`).
    `learn` takes entries for the summary of the run's commit; they are kept even if the computation fails later.
    """

    context: Context
    decision: Decision
    query: DataFrame
    shape: Shape
    upstreams: Upstreams
    background: Parallel
    schema_only: bool = False
    has_join_hints: bool = True
    is_same: bool = False
    learn: Callable[[RunSummary], None] = lambda _: None
    _cached: list[DataFrame] = field(default_factory=list)

    @property
    def model(self) -> Model:
        return self.context.model

    @property
    def spark(self) -> SparkSession:
        return self.context.spark

    @property
    def thresholds(self) -> Thresholds:
        return self.context.thresholds

    @contextmanager
    def caching(self) -> Iterator[None]:
        """Context in which rows given to `cache` are computed once; releases them at its end."""
        try:
            yield
        finally:
            while self._cached:
                self._cached.pop().unpersist()

    def cache(self, rows: DataFrame) -> DataFrame:
        """Returns `rows`, cached until the `caching` context ends."""
        self._cached.append(rows.persist())
        return self._cached[-1]

    def read_all_rows(self) -> DataFrame | None:
        """The table's rows; for a repair, the rows that its change rows fold to, since readers have seen those."""
        changes = self.context.state.changes
        if self.decision.repairs and changes is not None:
            return read_folded_rows(self.spark, self.model, changes)
        return self.read_rows()

    def read_rows(self, keys: Keys | None = None) -> DataFrame | None:
        """The table's rows; only those with one of `keys`, if given."""
        return read_current_rows(self.spark, self.model, self.context.state, self.thresholds.pruning, keys)

    def find_keys(self, keys: DataFrame, count: int | None, table_rows: int | None = None) -> Keys:
        """Prepares `keys` for lookups in the table, or in another table with `table_rows` rows.

        The columns of `keys` are named as the table's key. `count` is the number of keys, None if unknown.
        """
        if count is None:
            return Keys(keys.select(*as_key(self.model.config.entity_key)), few=False, near=EVERYWHERE)
        base = self.context.state.base
        rows = (base.rows if base else 0) if table_rows is None else table_rows
        return lookup_keys(keys, count, rows, self.thresholds.pruning)

    def select_key(self, rows: DataFrame) -> DataFrame:
        """The key columns of `rows`; if the table has history, those of the entity."""
        return rows.select(*[to_column(part) for part in self.model.config.entity_key])

    def find_source_keys(self, keys: DataFrame, count: int) -> Keys:
        """Prepares `keys`, of which there are `count`, for lookups in the upstreams."""
        return self.find_keys(keys, count, sum(state.rows for state in self.upstreams.states.values() if state))
