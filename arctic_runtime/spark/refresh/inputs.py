"""The inputs from which one attempt of a run computes change rows, and the result of the computation."""

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
    """Change rows that are computed but not written yet, with entries for the summary of their commit.

    `is_gathered` says that the number of partitions of `rows` already fits their size; `is_pinned`, that all inputs
    were read at the versions in the offsets, so that later commits to upstreams do not matter; `as_decided`, that the
    rows were computed by the method whose cost was estimated, so that the estimate can be corrected. `keys` is the
    estimated number of keys that are looked up in the table while the rows are written; 0 means unknown.
    """

    rows: DataFrame
    summary: RunSummary = field(default_factory=RunSummary)
    is_gathered: bool = False
    is_pinned: bool = True
    as_decided: bool = True
    keys: int = 0


@dataclass(frozen=True)
class RefreshInputs:
    """The inputs from which one attempt of a run computes change rows.

    `query` has the rows of the query. `shape` describes the change rows. Actions that are started in the `background`
    must end before the change rows are published. If `schema_only`, no rows are written. If `has_join_hints`, plans
    have join hints. `is_parser_confirmed` says that Spark understands the query as our analysis does, so that facts
    from the analysis, such as unique keys, hold. `record_for_later_runs` stores entries for the summary of the run's
    commit, which are kept even if the computation fails later.
    """

    context: Context
    decision: Decision
    query: DataFrame
    shape: Shape
    upstreams: Upstreams
    background: Parallel
    schema_only: bool = False
    has_join_hints: bool = True
    is_parser_confirmed: bool = False
    record_for_later_runs: Callable[[RunSummary], None] = lambda _: None
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
        """Keeps rows cached that are passed to `cache`, until the `with` block ends."""
        try:
            yield
        finally:
            while self._cached:
                self._cached.pop().unpersist()

    def cache(self, rows: DataFrame) -> DataFrame:
        """Marks `rows` to be cached when they are first computed, until the `caching` block ends, and returns them."""
        self._cached.append(rows.persist())
        return self._cached[-1]

    def read_all_rows(self) -> DataFrame | None:
        """Reads the table's rows; None if there is no base table yet.

        If the run repairs the table, returns the rows that result from all change rows instead, since readers of
        changes have seen these.
        """
        changes = self.context.state.changes
        if self.decision.repairs and changes is not None:
            return read_folded_rows(self.spark, self.model, changes)
        return self.read_rows()

    def read_rows(self, keys: Keys | None = None) -> DataFrame | None:
        """Reads the table's rows, or only those whose key is in `keys`; None if there is no base table yet."""
        return read_current_rows(self.spark, self.model, self.context.state, self.thresholds.pruning, keys)

    def find_keys(self, keys: DataFrame, count: int | None, table_rows: int | None = None) -> Keys:
        """Prepares `keys` for lookups in the table, or in other tables with `table_rows` rows in total.

        `keys` has columns named as the table's key. `count` is the number of keys, None if unknown.
        """
        if count is None:
            return Keys(keys.select(*as_key(self.model.config.entity_key)), few=False, near=EVERYWHERE)
        base = self.context.state.base
        rows = (base.rows if base else 0) if table_rows is None else table_rows
        return lookup_keys(keys, count, rows, self.thresholds.pruning)

    def select_key(self, rows: DataFrame) -> DataFrame:
        """Selects the key columns of `rows`; if the table has history, without the start of the version."""
        return rows.select(*[to_column(part) for part in self.model.config.entity_key])

    def find_source_keys(self, keys: DataFrame, count: int) -> Keys:
        """Prepares `keys` for lookups in the upstreams; `count` is their number."""
        return self.find_keys(keys, count, sum(state.rows for state in self.upstreams.states.values() if state))
