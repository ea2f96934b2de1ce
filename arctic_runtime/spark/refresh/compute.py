"""Computes the change rows of one attempt of a run, from all rows of a query, its events, or changes of its sources."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import HAS_AFTER, MULTIPLICITY, Node, list_scans
from arctic_runtime.ivm.rewrite.predicate_pushdown import narrow_sources
from arctic_runtime.ivm.rewrite.semi_join_reducers import SemiJoinReducer
from arctic_runtime.ivm.rewrite.statistics import Statistics
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState, hash_state
from arctic_runtime.ivm.strategies.maintain import AFFECTED, AffectedKeys, Deltas, Spool
from arctic_runtime.ivm.strategies.pairs import Pairs
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.shape import Shape
from arctic_runtime.plan.refresh.increment import Increment, collect_statistics, is_keyed
from arctic_runtime.spark.changes.diff import (
    build_delta_images,
    build_pair_images,
    diff_deltas,
    diff_pairs,
    diff_states,
)
from arctic_runtime.spark.history import versions
from arctic_runtime.spark.refresh import aggregate_state as totals
from arctic_runtime.spark.refresh import increments
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.edits import compute_edit
from arctic_runtime.spark.refresh.from_events import compute_from_events
from arctic_runtime.spark.refresh.frozen import withhold_frozen
from arctic_runtime.spark.refresh.images import SourceWindows
from arctic_runtime.spark.refresh.promote import compute_promotion
from arctic_runtime.spark.refresh.revert import compute_revert
from arctic_runtime.spark.tables.rows.bounds import collect_bounds
from arctic_runtime.spark.tables.rows.frames import to_column


def compute_changes(attempt: PreparedAttempt) -> Computed:
    """Computes the change rows of one attempt of a run; must be called within a `with attempt.caching()` block.

    They leave out changes of frozen rows. Nothing is published. Raises NotMaintained if an incremental refresh turns
    out to be impossible or too expensive.
    """
    if attempt.request.schema_only:
        return Computed(diff_states(attempt.query.limit(0), None, attempt.shape))
    if attempt.model.config.input == "changes":
        return withhold_frozen(attempt, compute_from_events(attempt))
    return withhold_frozen(attempt, QueryComputation(attempt).compute())


def _follow_query(changes: DataFrame) -> Computed:
    """Returns change rows that lead from one row of the query to another; the table is not read."""
    return Computed(changes, is_gathered=True, has_stored_before=False)


class AggregateStateRefused(Exception):
    """Raised if the aggregate state of an incremental plan can't be kept; `state` is the hash of the state."""

    def __init__(self, state: str) -> None:
        super().__init__(f"the aggregate state {state} can't be kept")
        self.state = state


class QueryComputation:
    """Computes the change rows of one attempt from a query, by a full comparison or by an incremental plan."""

    def __init__(self, attempt: PreparedAttempt) -> None:
        self.attempt = attempt
        self._registered_reducers: list[SemiJoinReducer] = []
        self._registered_spools: list[Spool] = []

    def compute(self) -> Computed:
        """Computes the change rows; raises NotMaintained if an incremental plan is impossible or too expensive."""
        increment, edit = self.attempt.decision.increment, self.attempt.decision.edit
        if edit is not None:
            return compute_edit(self.attempt, edit)
        if self.attempt.decision.forward is not None:
            return self._leave_rows()
        if self.attempt.decision.revert is not None:
            return compute_revert(self.attempt, self.attempt.decision.revert)
        if self.attempt.decision.promotion is not None:
            return compute_promotion(self.attempt, self.attempt.decision.promotion)
        return self._compare() if increment is None else self.follow(increment)

    def _leave_rows(self) -> Computed:
        """Computes no change row, and keeps from the last run what the rows and the next run's changes depend on."""
        last = self.attempt.last_run
        nothing = diff_states(self.attempt.query.limit(0), None, self.attempt.shape)
        return Computed(nothing, RunSummary(clock=last.clock, high_watermark=last.high_watermark), is_gathered=True)

    def _compare(self) -> Computed:
        """Computes the change rows by a comparison of all rows of the query with all rows of the table."""
        return replace(self._diff(self.attempt.query, self.attempt.read_all_rows()), is_pinned=False)

    @property
    def _needs_old(self) -> bool:
        """Whether change rows need data that only the table has.

        These are columns that the query lacks, closed versions, or rows of earlier queries.
        """
        config = self.attempt.model.config
        has_closed = config.has_history and not config.keep_deleted
        return self.attempt.shape.keeps_more or has_closed or self._is_forward

    @property
    def _is_forward(self) -> bool:
        """Whether the table has rows of earlier queries, which this run leaves."""
        return self.attempt.last_run.forward is not None

    @property
    def _entities(self) -> Shape:
        return versions.to_entity_shape(self.attempt.model.config, self.attempt.shape)

    def follow(self, increment: Increment) -> Computed:
        """Computes the change rows from changes of the sources, by the strategy of the incremental plan `increment`."""
        attempt = self.attempt
        if not isinstance(increment.maintenance, AggregateState):
            self._register(increment, increment.trees)
        match increment.maintenance:
            case Deltas(changes):
                if increments.has_maps(attempt.query):
                    raise NotMaintained(
                        "UNSUPPORTED", "the query has a map column, and rows with maps can't be grouped"
                    )
                moved = increments.compute_deltas(attempt.spark, changes, increment, attempt.query)
                if self._needs_old:
                    moved = attempt.cache(moved)
                    return self._look_up(moved.where(F.col(MULTIPLICITY) > 0).drop(MULTIPLICITY), moved)
                if attempt.model.config.has_history:
                    return self._follow_versions(build_delta_images(moved, MULTIPLICITY, self._entities))
                return _follow_query(diff_deltas(moved, MULTIPLICITY, attempt.shape))
            case Pairs(rows):
                pairs = increments.compute_pairs(attempt.spark, rows, increment, attempt.query)
                if self._needs_old:
                    pairs = attempt.cache(pairs)
                    return self._look_up(
                        pairs.where(F.col(HAS_AFTER)).select(*[to_column(part) for part in attempt.query.columns]),
                        pairs,
                    )
                if attempt.model.config.has_history:
                    return self._follow_versions(build_pair_images(pairs, self._entities))
                return _follow_query(diff_pairs(pairs, attempt.shape))
            case AggregateState() as plan:
                return self._follow_state(increment, plan)
            case AffectedKeys() as plan:
                return self._recompute_keys(increment, plan)

    def _register(self, increment: Increment, trees: Sequence[Node]) -> None:
        """Creates the temporary views that operator trees read; views of semi-join reducers and spools only once."""
        attempt = self.attempt
        parts = increment.select_reducers(trees)
        needed = (*trees, *(tree for part in parts for tree in part.input_trees))
        spools = [one for one in increment.select_spools(needed) if one not in self._registered_spools]
        needed = (*needed, *(one.rows for one in spools))
        sources = SourceWindows(attempt.spark, attempt.upstreams, attempt.decision.windows, attempt.thresholds)
        increments.register_images(sources, needed, attempt.cache)
        increments.register_spools(attempt.spark, spools, attempt.cache)
        self._registered_spools.extend(spools)
        if not self._registered_reducers:
            increments.register_reducers(sources, parts, attempt.cache)
            self._registered_reducers.extend(parts)

    def _follow_state(self, increment: Increment, plan: AggregateState) -> Computed:
        """Updates the aggregate state, and computes the change rows of the groups whose state changed.

        If no state is stored, computes the change rows of all groups. Raises AggregateStateRefused if the state can't
        be kept.
        """
        attempt = self.attempt
        update = totals.update_aggregate_state(
            attempt.context, plan, partial(self._register, increment), attempt.cache, attempt.background
        )
        if update is None:
            raise AggregateStateRefused(hash_state(plan))
        summary = RunSummary(aggregate_state=hash_state(plan))
        now = increments.as_query(update.now, increment.outputs, attempt.query)
        if update.before is None:
            changes = self._diff(now, attempt.read_all_rows())
            return replace(changes, summary=changes.summary.with_entries_from(summary), as_decided=False)
        before = increments.as_query(update.before, increment.outputs, attempt.query)
        if self._needs_old or attempt.model.config.has_history:
            looked_up = self._look_up(now, attempt.cache(now.unionAll(before)))
            return replace(looked_up, summary=looked_up.summary.with_entries_from(summary))
        # Groups that are joined to nothing are few rows, so one partition is enough.
        changes = self._diff(now, before, in_one_part=not list_scans(plan.result))
        return replace(changes, summary=summary, has_stored_before=False)

    def _recompute_keys(self, increment: Increment, plan: AffectedKeys) -> Computed:
        attempt = self.attempt
        keys = attempt.cache(increments.compute_affected_keys(attempt.spark, plan.affected))
        count = keys.count()
        key = zip(increment.key, attempt.model.config.entity_key, strict=True)
        old = self._read_old(keys.select(*[to_column(own).alias(part) for own, part in key]), count)
        is_large = increment.count_rows_read(attempt.upstreams) > attempt.thresholds.incremental.large_source_rows
        may_recompute = attempt.model.config.refresh == "auto" and not self._is_forward
        if may_recompute and is_large and self._are_most(old, count):
            raise NotMaintained("COST", f"the rows of {count:,} keys may differ, which are most rows of the table")
        sought = (collect_bounds(keys, count, attempt.thresholds.pruning) or ()) if is_large else ()
        new = narrow_sources(plan.new, AFFECTED, sought) if is_large else plan.new
        statistics = self._statistics() if attempt.has_join_hints else Statistics()
        new = statistics.with_spool(AFFECTED, count).with_join_hints(new)
        now = increments.recompute_affected_rows(attempt.spark, new, keys, increment, attempt.query)
        return self._diff(now, old)

    def _statistics(self) -> Statistics:
        attempt = self.attempt
        return collect_statistics(attempt.upstreams, attempt.decision.windows, attempt.thresholds.joins)

    def _are_most(self, old: DataFrame | None, count: int) -> bool:
        """Whether a share of the table's rows above the threshold `affected_share` may change.

        `old` has the stored rows of the affected keys, `count` is the number of these keys.
        """
        base = self.attempt.context.state.base
        if old is None or base is None:
            return False
        most = self.attempt.thresholds.incremental.affected_share * base.rows
        return count > most and old.count() > most

    def _look_up(self, added: DataFrame, changed: DataFrame) -> Computed:
        """Computes change rows by a comparison of `added` rows with the stored rows whose keys are in `changed`.

        This is needed if only the table has some values, such as those of columns that the query no longer returns.
        `changed` has the keys of all added and removed rows, and has to be cached.
        """
        key = [to_column(part) for part in self.attempt.model.config.entity_key]
        return self._diff(added, self._read_old(changed.select(*key), changed.count()))

    def _read_old(self, keys: DataFrame, count: int | None) -> DataFrame | None:
        """Reads the table's rows whose key is in `keys`; `count` is the number of keys, None if unknown.

        The columns of `keys` have the names of the table's key columns.
        """
        return self.attempt.read_rows(self.attempt.find_keys(keys, count))

    def _diff(self, new: DataFrame, old: DataFrame | None, in_one_part: bool = False) -> Computed:
        """Computes the change rows that turn the table's rows `old` into the query's rows `new`.

        They are computed in one task if `in_one_part`, or if the table and its sources have few rows.
        """
        attempt = self.attempt
        keyed = attempt.is_parser_confirmed and is_keyed(attempt.model, attempt.upstreams, attempt.decision.increment)
        in_one_part = old is not None and (in_one_part or self._reads_little())
        if old is not None and in_one_part:
            new, old = new.coalesce(1), old.coalesce(1)
        is_gathered = old is None or in_one_part
        if not attempt.model.config.has_history:
            return Computed(diff_states(new, old, attempt.shape, keyed), is_gathered=is_gathered)
        time = self._time
        moves = versions.build_query_moves(new, old, attempt.shape, attempt.model.config, keyed)
        rows = versions.build_version_changes(moves, attempt.shape, attempt.model.config, time)
        return Computed(rows, RunSummary(high_watermark=time.isoformat()), is_gathered)

    def _follow_versions(self, images: DataFrame) -> Computed:
        """Computes the change rows of versions from `images`, pairs of a new (a0…) and an old (b0…) query row."""
        attempt = self.attempt
        held, time = attempt.cache(images), self._time
        places = versions.Positions.find(attempt.model.config, attempt.shape)
        key = zip(places.entity, attempt.model.config.entity_key, strict=True)
        old = self._read_old(held.select(*[F.col(f"a{i}").alias(part) for i, part in key]), held.count())
        assert old is not None
        rows = versions.follow_versions(held, old, attempt.shape, attempt.model.config, time)
        return Computed(rows, RunSummary(high_watermark=time.isoformat()))

    @property
    def _time(self) -> datetime.datetime:
        """The time at which this run ends versions and begins new ones."""
        return versions.find_run_time(self.attempt.context.now, find_last_run(self.attempt.context.state.changes))

    def _reads_little(self) -> bool:
        """Whether the table and all sources of its query together have few rows."""
        attempt = self.attempt
        base, states = attempt.context.state.base, attempt.upstreams.states.values()
        rows = sum(math.inf if state is None else state.rows for state in states)
        return rows + (base.rows if base else 0) <= attempt.thresholds.incremental.single_task_rows
