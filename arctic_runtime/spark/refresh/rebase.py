"""Change rows that another run overtook: those of keys that it read no event of stay, others are computed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.state import ChangeTableState
from arctic_runtime.plan.rebase import Rebase, rebase
from arctic_runtime.spark.engine.settings import settings
from arctic_runtime.spark.refresh.compute import Computation, Computed
from arctic_runtime.spark.refresh.planning import RefreshPlanner
from arctic_runtime.spark.refresh.query_inputs import QueryInputs
from arctic_runtime.spark.tables import marks
from arctic_runtime.spark.tables.append import publish
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.frames import as_key, match
from arctic_runtime.spark.tables.merge import looking_up
from arctic_runtime.spark.tables.table_session import TableSession

BECAUSE = "another run committed meanwhile; rows of the keys that both had events of were computed again"


@dataclass(frozen=True)
class Overtaken:
    """The change set of a `computation`, for the case that another run commits before it.

    `times` is how many times it may be overtaken until it starts again.
    """

    planner: RefreshPlanner
    table: TableSession
    computation: Computation
    changes: ChangeSet
    times: int

    def publish(self, rows: DataFrame) -> Appended | None:
        """Publishes on top of the table as it is now what the change rows, `rows`, have to be there.

        None where the run has to start again. Nothing that readers see is written before the one commit.
        """
        computation = self.computation
        then, state = computation.context.state.changes, self.table.observe()
        if then is None or state.changes is None or not self.times:
            return None
        found = rebase(self.table.model, then, state.changes, computation.decision, self.changes.summary)
        if found is None:
            return None
        inputs = QueryInputs(self.table.model, self.planner.observe_upstreams())
        with self.table.timings.timed("rebase"), self._their_keys(found, inputs) as keys:
            again = self._again(found, inputs, self.table.context(state), keys)
            with again.held():
                computed = again.compute()
                changes = self._on_top(state.changes, rows, computed, keys, found)
                with settings(again.spark, looking_up(computed.keys, again.context.thresholds.pruning)):
                    following = Overtaken(self.planner, self.table, again, changes, self.times - 1)
                    return replace(publish(changes, again.context, following.publish), because=BECAUSE)

    @contextmanager
    def _their_keys(self, found: Rebase, inputs: QueryInputs) -> Iterator[DataFrame]:
        """The keys of all events that other runs have applied, named as `match` joins them."""
        events = inputs.query(self.computation.spark, found.theirs, "theirs")
        keys = events.select(*as_key(self.table.model.config.primary_key)).distinct().persist()
        try:
            yield keys
        finally:
            keys.unpersist()

    def _again(self, found: Rebase, inputs: QueryInputs, context: Context, keys: DataFrame) -> Computation:
        """The computation of what is left of the windows, of these keys, on top of the table as it is now."""
        computation, key = self.computation, self.table.model.config.primary_key
        events = inputs.query(computation.spark, found.left)
        query = events.join(keys, match(events, key), "left_semi")
        decision = replace(computation.decision, windows=found.left)
        return Computation(context, decision, query, computation.shape, inputs.upstreams, computation.beside)

    def _on_top(
        self, now: ChangeTableState, rows: DataFrame, computed: Computed, keys: DataFrame, found: Rebase
    ) -> ChangeSet:
        """The change set with what was computed again in the place of the change rows of `keys`."""
        assert now.head is not None
        kept = rows.join(keys, match(rows, self.table.model.config.primary_key), "left_anti")
        summary = self.changes.summary.updated(computed.summary)
        return replace(
            self.changes,
            commit=replace(self.changes.commit, expected=now.head.snapshot),
            rows=kept.unionByName(computed.rows),
            summary=replace(
                summary, offsets=found.offsets, high_watermark=self._higher(computed.summary.high_watermark)
            ),
            is_gathered=False,
        )

    def _higher(self, watermark: str | None) -> str | None:
        """The high watermark of this run or that of the rows that were computed again, whichever is later."""
        own, kind = self.changes.summary.high_watermark, self.computation.shape.sequence_type
        if own is None or watermark is None or own == watermark:
            return own if watermark is None else watermark
        later = F.greatest(marks.latest(own, kind), marks.latest(watermark, kind))
        (row,) = self.computation.spark.range(1).select(marks.written(later, kind).alias("later")).collect()
        return str(row["later"])
