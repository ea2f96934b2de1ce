"""One attempt of a run, as frozen values: as it was planned, as it was prepared, and what it has computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace

from pyspark.sql import DataFrame, SparkSession
from typing_extensions import Self

from arctic_runtime.model.refresh_state import encode_refresh_state
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.increment import Upstreams, remove_join_hints
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.spark.engine.jobs import Parallel
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

    has_stored_before: bool = True
    """True if `_before` has the rows of the table; False if it has those that the query gave before.

    They differ only in rows that `frozen_where` keeps.
    """

    keys: int = 0
    """Estimated number of keys that are looked up in the table while the rows are written; 0 if it is not known."""


@dataclass(frozen=True, kw_only=True)
class RefreshAttempt:
    """One attempt of a run, as it was planned. Each step of the run returns a new attempt."""

    context: Context
    """The Spark session, the model, and the state of its tables, with which steps are performed."""

    upstreams: Upstreams
    """The observed states of the tables and views that the query reads."""

    decision: Decision
    """The run's mode, its windows of upstream versions, and its incremental plan."""

    request: Request
    """The request for the run, with facts from earlier attempts."""

    recorded: RunSummary = field(default_factory=RunSummary)
    """Entries for the summary of the attempt's commit, which later runs read."""

    is_parser_confirmed: bool = False
    """True if Spark understands the query as our parser does, so that the unique keys which our analysis found hold."""

    @property
    def model(self) -> Model:
        return self.context.model

    @property
    def spark(self) -> SparkSession:
        return self.context.spark

    @property
    def thresholds(self) -> Thresholds:
        return self.context.thresholds

    @property
    def last_run(self) -> RunSummary:
        """The summary of the run whose rows the attempt continues; empty before the first run.

        It is the newest run of the model, unless the attempt returns to an earlier version, or takes over a clone.
        """
        if self.decision.promotion is not None:
            return self.decision.promotion.run
        if self.decision.revert is not None:
            return self.decision.revert.run
        return find_last_run(self.context.state.changes) or RunSummary()

    @property
    def is_incremental(self) -> bool:
        return self.decision.increment is not None or self.decision.has_later_changes

    def summarize_sources(self, offsets: Mapping[str, Version]) -> RunSummary:
        """Returns the entries for the summary of a commit whose rows are computed from the sources up to `offsets`."""
        states = self.upstreams.states
        read = {state.log: version for name, version in offsets.items() if (state := states.get(name)) is not None}
        refresh_state = encode_refresh_state(read, self.model.table.catalog, self.upstreams.clock // 1000)
        return RunSummary(offsets=offsets, refresh_state=refresh_state)

    def record_entries(self, entries: RunSummary) -> Self:
        """Returns the attempt with `entries` added to what later runs read."""
        return replace(self, recorded=self.recorded.with_entries_from(entries))


@dataclass(frozen=True, kw_only=True)
class PreparedAttempt(RefreshAttempt):
    """One attempt of a run whose tables are ready for the rows of the query: the input of the computation."""

    query: DataFrame
    """The rows that the query returns over the windows of the decision."""

    shape: Shape
    """The columns, the key and the constraints of the change rows."""

    background: Parallel
    """Threads for Spark actions that must end before the change rows are published."""

    has_join_hints: bool = True
    """True if plans contain hints that tell Spark which side of a join to broadcast."""

    _cached: list[DataFrame] = field(default_factory=list)

    @property
    def has_no_rows(self) -> bool:
        """Whether the table has no rows yet."""
        changes, base = self.context.state.changes, self.context.state.base
        return base is None or changes is None or not base.rows + changes.count_rows_after(base.merged)

    def remove_join_hints(self) -> PreparedAttempt:
        """Returns the attempt for another computation, in which Spark itself chooses how to join."""
        increment = None if self.decision.increment is None else remove_join_hints(self.decision.increment)
        decision = replace(self.decision, increment=increment)
        return replace(self, decision=decision, has_join_hints=False, background=_open_background(self.context))

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


def prepare_attempt(attempt: RefreshAttempt, query: DataFrame, shape: Shape) -> PreparedAttempt:
    """Returns the attempt with the query's rows and the shape of change rows, for which its tables are ready."""
    parts = {part.name: getattr(attempt, part.name) for part in fields(attempt)}
    return PreparedAttempt(**parts, query=query, shape=shape, background=_open_background(attempt.context))


def _open_background(context: Context) -> Parallel:
    return Parallel(context.spark, context.thresholds.engine)
