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
    """Change rows that a run has computed but not written yet."""

    rows: DataFrame
    """The change rows."""

    summary: RunSummary = field(default_factory=RunSummary)
    """Entries to be added to the summary of the commit that writes the rows, such as a new high watermark."""

    is_gathered: bool = False
    """True if the number of partitions of `rows` fits their size; if False, they are rebalanced before the write."""

    is_pinned: bool = True
    """True if the rows were computed from exactly the versions of upstreams that are stored as the run's offsets.

    If False, the current versions were read: the rows are published only if no upstream has changed meanwhile.
    """

    as_decided: bool = True
    """True if the rows were computed by the method whose cost was estimated.

    Only then is the duration stored with the estimate, so that later runs can correct their estimates.
    """

    keys: int = 0
    """Estimated number of keys that are looked up in the table while the rows are written; 0 if it is not known."""


@dataclass(frozen=True)
class RefreshInputs:
    """The inputs from which one attempt of a run computes change rows."""

    context: Context
    """The Spark session, the model, and the state of its tables, with which steps are performed."""

    decision: Decision
    """The run's mode, its windows of upstream versions, and its incremental plan."""

    query: DataFrame
    """The rows that the query returns over the windows of the decision."""

    shape: Shape
    """The columns, the key and the constraints of the change rows."""

    upstreams: Upstreams
    """The observed states of the tables and views that the query reads."""

    background: Parallel
    """Threads for Spark actions that must end before the change rows are published."""

    schema_only: bool = False
    """True if the run writes no rows, only the columns of the tables."""

    has_join_hints: bool = True
    """True if plans contain hints that tell Spark which side of a join to broadcast."""

    is_parser_confirmed: bool = False
    """True if Spark understands the query as our parser does, so that the unique keys which our analysis found hold."""

    record_for_later_runs: Callable[[RunSummary], None] = lambda _: None
    """Stores entries for the summary of the run's commit; they are kept even if the computation fails afterwards."""

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
        if self.decision.repairs and self.context.state.changes is not None:
            return read_folded_rows(self.spark, self.model, self.context.state)
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
