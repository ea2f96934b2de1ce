"""Rebases change rows if another run commits first: recomputes the rows of keys that have events in both runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.shape import ChangeSet
from arctic_runtime.model.state import ChangeTableState
from arctic_runtime.plan.refresh.rebase import Rebase, plan_rebase
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.compute import compute_changes
from arctic_runtime.spark.refresh.query_inputs import QueryInputs
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.merge import build_lookup_settings
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import as_key, match_key
from arctic_runtime.spark.tables.table_session import TableSession

BECAUSE = "another run committed meanwhile; rows of the keys that both had events of were computed again"


@dataclass(frozen=True)
class RebaseAttempt:
    """An attempt before whose commit another run has committed; publishes its change rows on top of that commit.

    `changes` is the change set of `attempt`. `times` is the number of rebases after
    which the run starts again.
    """

    planner: RefreshPlanner
    table: TableSession
    attempt: PreparedAttempt
    changes: ChangeSet
    times: int

    def publish_on_top(self, rows: DataFrame) -> Appended | None:
        """Adapts the change rows `rows` to the current state of the table, and publishes them in one commit.

        Returns None if that is impossible, so that the run has to start again; then nothing is changed.
        """
        then, state = self.attempt.context.state.changes, self.table.observe_state()
        if then is None or state.changes is None or not self.times:
            return None
        plan = plan_rebase(self.table.model, then, state.changes, self.attempt.decision, self.changes.summary)
        if plan is None:
            return None
        inputs = QueryInputs(self.table.model, self.planner.observe_upstreams())
        with self.table.timings.measure_step("rebase"), self._list_their_keys(plan, inputs) as keys:
            again = self._recompute_rest(plan, inputs, self.table.build_context(state), keys)
            with again.caching():
                computed = compute_changes(again)
                changes = self._build_on_top(state.changes, rows, computed, keys, plan)
                with override_settings(again.spark, build_lookup_settings(computed.keys, again.thresholds.pruning)):
                    following = RebaseAttempt(self.planner, self.table, again, changes, self.times - 1)
                    return replace(publish_changes(changes, again.context, following.publish_on_top), because=BECAUSE)

    @contextmanager
    def _list_their_keys(self, plan: Rebase, inputs: QueryInputs) -> Iterator[DataFrame]:
        """Yields the keys of all events that the other runs applied, cached until the block ends.

        Their columns are named as `match_key` expects.
        """
        events = inputs.run_query(self.attempt.spark, plan.theirs, "theirs")
        keys = events.select(*as_key(self.table.model.config.primary_key)).distinct().persist()
        try:
            yield keys
        finally:
            keys.unpersist()

    def _recompute_rest(self, plan: Rebase, inputs: QueryInputs, context: Context, keys: DataFrame) -> PreparedAttempt:
        """Returns the inputs from which the rows of `keys` are computed again.

        These inputs are the events of `keys` that no other run has applied, and the state of the table in `context`.
        """
        key = self.table.model.config.primary_key
        events = inputs.run_query(self.attempt.spark, plan.left)
        query = events.join(keys, match_key(events, key), "left_semi")
        decision = replace(self.attempt.decision, windows=plan.left)
        upstreams = inputs.upstreams
        return replace(self.attempt, context=context, decision=decision, query=query, upstreams=upstreams, _cached=[])

    def _build_on_top(
        self, now: ChangeTableState, rows: DataFrame, computed: Computed, keys: DataFrame, plan: Rebase
    ) -> ChangeSet:
        """Builds the change set for a commit on top of `now`: `rows`, with those of `keys` replaced by `computed`."""
        assert now.head is not None
        untouched = rows.join(keys, match_key(rows, self.table.model.config.primary_key), "left_anti")
        sources = self.attempt.summarize_sources(plan.offsets)
        summary = self.changes.summary.with_entries_from(computed.summary).with_entries_from(sources)
        return replace(
            self.changes,
            commit=replace(self.changes.commit, expected=now.head.snapshot),
            rows=untouched.unionByName(computed.rows),
            summary=replace(summary, high_watermark=self._choose_high_watermark(computed.summary.high_watermark)),
            is_gathered=False,
        )

    def _choose_high_watermark(self, watermark: str | None) -> str | None:
        """Returns the later one of two high watermarks: this run's, and `watermark`, that of the recomputed rows.

        None counts as the earlier one.
        """
        own, kind = self.changes.summary.high_watermark, self.attempt.shape.sequence_type
        if own is None or watermark is None or own == watermark:
            return own if watermark is None else watermark
        later = F.greatest(marks.read_latest(own, kind), marks.read_latest(watermark, kind))
        (row,) = self.attempt.spark.range(1).select(marks.write_sequence_text(later, kind).alias("later")).collect()
        return str(row["later"])
