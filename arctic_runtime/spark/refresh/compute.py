"""The change rows of one attempt: from the query's rows, its events, or the changes of its sources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import HAS_AFTER, MULTIPLICITY, Node, scans
from arctic_runtime.ivm.rewrite.bounds import narrowed
from arctic_runtime.ivm.rewrite.semi_join_reducers import SemiJoinReducer
from arctic_runtime.ivm.rewrite.statistics import Statistics
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState, fingerprint
from arctic_runtime.ivm.strategies.maintain import AFFECTED, AffectedKeys, Deltas
from arctic_runtime.ivm.strategies.pairs import Pairs
from arctic_runtime.ivm.strategies.spool import Spool
from arctic_runtime.model.declared import Declared
from arctic_runtime.model.run_summary import RunSummary, last_run, offsets_of
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.plan.decide import Decision
from arctic_runtime.plan.increment import Increment, Upstreams, is_keyed, known_sizes, without_totals
from arctic_runtime.spark.engine.parallel import Parallel
from arctic_runtime.spark.refresh import aggregate_state as totals
from arctic_runtime.spark.refresh import events, increments, late
from arctic_runtime.spark.refresh import semi_join_reducers as slices
from arctic_runtime.spark.refresh.diff import (
    delta_changes,
    event_changes,
    input_changes,
    pair_changes,
    refresh_changes,
    state_changes,
)
from arctic_runtime.spark.tables.bounds import EVERYWHERE, bounds, near
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.frames import (
    Keys,
    as_key,
    base_rows,
    column,
    current_rows,
    folded_rows,
    unmerged_changes,
)
from arctic_runtime.thresholds import Thresholds


@dataclass(frozen=True)
class Computed:
    """Change rows before they are written, and what their commit says besides.

    `is_gathered`: they are in as many parts as their size needs. `is_pinned`: everything that they were computed from
    was read as of the offsets, whatever came meanwhile. `as_decided`: they were computed in the way that was estimated.
    `keys`: about so many are looked up in the table while the rows are written, 0 where nothing is to be made of that.
    """

    rows: DataFrame
    summary: RunSummary = field(default_factory=RunSummary)
    is_gathered: bool = False
    is_pinned: bool = True
    as_decided: bool = True
    keys: int = 0


class Computation:
    """The computation of one attempt's change rows: from the query's rows, its events, or its sources' changes.

    Work that is done `beside` has to be finished before the change rows are published. The hints of joins say which
    sides are small if `is_told`. The analysis of the query is trusted if Spark reads the query the same (`is_same`).
    After `compute`, also where it raised, `learned` are entries for the summary of the run's commit.
    """

    def __init__(
        self,
        context: Context,
        decision: Decision,
        query: DataFrame,
        shape: Shape,
        upstreams: Upstreams,
        beside: Parallel,
        schema_only: bool = False,
        is_told: bool = True,
        is_same: bool = False,
    ) -> None:
        self.context = context
        self.decision = decision
        self.query = query
        self.shape = shape
        self.upstreams = upstreams
        self.beside = beside
        self.schema_only = schema_only
        self.is_told = is_told
        self.is_same = is_same
        self.learned = RunSummary()
        self._held: list[DataFrame] = []
        self._sliced: list[SemiJoinReducer] = []
        self._told: list[Spool] = []

    @property
    def model(self) -> Model:
        return self.context.model

    @property
    def spark(self) -> SparkSession:
        return self.context.spark

    @property
    def _thresholds(self) -> Thresholds:
        return self.context.thresholds

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this lasts, rows that are read more than once are computed once."""
        try:
            yield
        finally:
            while self._held:
                self._held.pop().unpersist()

    def compute(self) -> Computed:
        """The change rows; nothing that anybody reads is written. Call it inside `held`.

        Raises NotMaintained where following what changed turns out not to be the way.
        """
        if self.schema_only:
            return Computed(state_changes(self.query.limit(0), None, self.shape))
        if self.model.config.input == "changes":
            return self._folded()
        if self.decision.increment is None:
            return self._compared()
        return self.follow(self.decision.increment)

    def _hold(self, rows: DataFrame) -> DataFrame:
        self._held.append(rows.persist())
        return self._held[-1]

    def _compared(self) -> Computed:
        """All rows of the query against all rows of the table."""
        return replace(self._changes(self.query, self._all_old()), is_pinned=False)

    def _all_old(self) -> DataFrame | None:
        """The table's rows; where it breaks promises those that its changes fold to, as their readers know them."""
        changes = self.context.state.changes
        if self.decision.repairs and changes is not None:
            return folded_rows(self.spark, self.model, changes)
        return current_rows(self.spark, self.model, self.context.state, self._thresholds.pruning)

    def follow(self, increment: Increment) -> Computed:
        if not isinstance(increment.maintenance, AggregateState):
            self._register(increment, increment.trees)
        match increment.maintenance:
            case Deltas(changes):
                if increments.has_maps(self.query):
                    raise NotMaintained("UNSUPPORTED", "rows with a map can't be counted, and the query has one")
                moved = increments.moved(self.spark, changes, increment, self.query)
                if self.shape.keeps_more:
                    moved = self._hold(moved)
                    return self._looked_up(moved.where(F.col(MULTIPLICITY) > 0).drop(MULTIPLICITY), moved)
                return Computed(delta_changes(moved, MULTIPLICITY, self.shape), is_gathered=True)
            case Pairs(rows):
                pairs = increments.paired(self.spark, rows, increment, self.query)
                if self.shape.keeps_more:
                    pairs = self._hold(pairs)
                    return self._looked_up(
                        pairs.where(F.col(HAS_AFTER)).select(*[column(part) for part in self.query.columns]), pairs
                    )
                return Computed(pair_changes(pairs, self.shape), is_gathered=True)
            case AggregateState() as plan:
                return self._added_up(increment, plan)
            case AffectedKeys() as units:
                return self._recomputed(increment, units)

    def _register(self, increment: Increment, trees: Sequence[Node]) -> None:
        """Makes the views that trees read. Parts of sources are made once, and their views stay as they are."""
        parts = increment.read_slices(trees)
        needed = (*trees, *(tree for part in parts for tree in part.trees))
        told = [one for one in increment.read_shared(needed) if one not in self._told]
        needed = (*needed, *(one.rows for one in told))
        windows, thresholds = self.decision.windows, self._thresholds
        increments.register_images(self.spark, needed, self.upstreams, windows, thresholds, self._hold)
        increments.share(self.spark, told, self._hold)
        self._told.extend(told)
        if not self._sliced:
            slices.register(self.spark, parts, self.upstreams, windows, thresholds, self._hold)
            self._sliced.extend(parts)

    def _added_up(self, increment: Increment, plan: AggregateState) -> Computed:
        """From the groups whose totals changed, or from all where none are kept yet; writes the totals."""
        found = totals.follow(self.context, plan, partial(self._register, increment), self._hold, self.beside)
        if found is None:
            self.learned = RunSummary(no_aggregate_state=fingerprint(plan))
            return replace(self.follow(without_totals(increment)), as_decided=False)
        summary = RunSummary(aggregate_state=fingerprint(plan))
        now = increments.as_query(found.now, increment, self.query)
        if found.before is None:
            old = current_rows(self.spark, self.model, self.context.state, self._thresholds.pruning)
            return replace(self._changes(now, old), summary=summary, as_decided=False)
        before = increments.as_query(found.before, increment, self.query)
        if self.shape.keeps_more:
            return replace(self._looked_up(now, self._hold(now.unionAll(before))), summary=summary)
        # Groups that are joined to nothing are few rows in one part, which is all that has to be looked at.
        return replace(self._changes(now, before, in_one_part=not scans(plan.result)), summary=summary)

    def _recomputed(self, increment: Increment, units: AffectedKeys) -> Computed:
        keys = self._hold(increments.affected(self.spark, units.affected))
        count = keys.count()
        key = zip(increment.key, self.model.config.primary_key, strict=True)
        old = self._old(keys.select(*[column(own).alias(part) for own, part in key]), count)
        is_large = increment.reads(self.upstreams) > self._thresholds.incremental.large_source_rows
        if self.model.config.refresh == "auto" and is_large and self._are_most(old, count):
            raise NotMaintained("COST", f"the rows under {count:,} keys may differ, most of the table's")
        sought = (bounds(keys, count, self._thresholds.pruning) or ()) if is_large else ()
        new = narrowed(units.new, AFFECTED, sought) if is_large else units.new
        sizes = self._known_sizes() if self.is_told else Statistics()
        new = sizes.with_given(AFFECTED, count).told(new)
        now = increments.recomputed(self.spark, new, keys, increment, self.query)
        return self._changes(now, old)

    def _known_sizes(self) -> Statistics:
        return known_sizes(self.upstreams, self.decision.windows, self._thresholds.joins)

    def _are_most(self, old: DataFrame | None, count: int) -> bool:
        """Whether `old`, the rows under `count` keys, are most of the table's: many keys may have few."""
        base = self.context.state.base
        if old is None or base is None:
            return False
        most = self._thresholds.incremental.affected_share * base.rows
        return count > most and old.count() > most

    def _looked_up(self, came: DataFrame, moved: DataFrame) -> Computed:
        """Change rows for a table with columns that the query no longer has: only the table holds their values.

        `moved` has the keys of all rows that came or went.
        """
        key = [column(part) for part in self.model.config.primary_key]
        return self._changes(came, self._old(moved.select(*key), None))

    def _old(self, keys: DataFrame, count: int | None) -> DataFrame | None:
        """The table's rows under `keys`, named as the table's key, of which there are `count` if that is known."""
        found = self._keys(keys, count)
        return current_rows(self.spark, self.model, self.context.state, self._thresholds.pruning, found)

    def _changes(self, new: DataFrame, old: DataFrame | None, in_one_part: bool = False) -> Computed:
        """Change rows from rows of the table to what the query has in their place; few in one part."""
        keyed = self.is_same and is_keyed(self.model, self.upstreams, self.decision.increment)
        if old is None:
            return Computed(state_changes(new, None, self.shape, keyed), is_gathered=True)
        in_one_part = in_one_part or self._reads_little()
        if in_one_part:
            new, old = new.coalesce(1), old.coalesce(1)
        return Computed(state_changes(new, old, self.shape, keyed), is_gathered=in_one_part)

    def _reads_little(self) -> bool:
        """Whether the table and all that its query reads are few rows."""
        base, states = self.context.state.base, self.upstreams.states.values()
        rows = sum(math.inf if state is None else state.rows for state in states)
        return rows + (base.rows if base else 0) <= self._thresholds.incremental.single_task_rows

    def _keys(self, keys: DataFrame, count: int | None, table_rows: int | None = None) -> Keys:
        """Keys, named as those of the table, to look rows up by: its own, or others of which there are so many."""
        base = self.context.state.base
        named = keys.select(*as_key(self.model.config.primary_key))
        if count is None:
            return Keys(named, few=False, near=EVERYWHERE)
        rows = (base.rows if base else 0) if table_rows is None else table_rows
        limits = self._thresholds.pruning
        return Keys(named, count <= limits.broadcast_keys, near(keys, count, rows, limits))

    def _folded(self) -> Computed:
        """The net event of each key, with the old row looked up."""
        model, state, query = self.model, self.context.state, self.query
        afresh = self.decision.mode in ("create", "full")
        last = None if afresh else last_run(state.changes)
        mark = last.high_watermark if last else None
        declared = (last.declared if last else None) or Declared()
        query = events.after(model, query, self.shape, declared)
        found = events.profile(model, query, self.shape.sequence_type, mark)
        events.check_profile(model, query, found)
        events.check_order(model, query)
        if last is not None and found.late:
            net = self._net_with_late(query, found, last)
        else:
            net = events.net_events(model, query, self.shape)
        high = found.high_watermark
        summary = RunSummary(
            high_watermark=high if model.config.sequence_by else None,
            restored=last.restored if last else None,
            declared=declared,
        )
        rows = self._net_rows(query, net, found)
        return Computed(rows, summary, is_gathered=state.base is None, keys=found.events)

    def _net_with_late(self, query: DataFrame, found: events.Profile, last: RunSummary) -> DataFrame:
        """The net events where some came after newer ones of their key.

        Where the newest event is the row, older ones lose. Else the row follows from all events of the key.
        """
        model, shape = self.model, self.shape
        newest = self._newest_seen(query, found, last)
        if model.config.on_match == "replace":
            return events.net_events(model, late.in_order(model, query, newest), shape)
        keys = self._hold(late.late_keys(model, query, newest))
        count = keys.count()
        if not count:
            return events.net_events(model, query, shape)
        late.check_all_is_kept(model, self.upstreams, last)
        history = late.events_until(self.spark, model, self.upstreams, "all", self.decision.consumed)
        folded = self._keys(keys, count, self._source_rows).select(history, model.config.primary_key)
        events.check_profile(model, folded, events.profile(model, folded, shape.sequence_type, None))
        events.check_order(model, folded)
        others = events.net_events(model, late.without(model, query, keys), shape)
        return others.unionByName(events.net_events(model, folded, shape).withColumn("reset", F.lit(True)))

    def _newest_seen(self, query: DataFrame, found: events.Profile, last: RunSummary) -> DataFrame:
        """The newest place that was read of each key that may have a late event."""
        model, changes = self.model, self.context.state.changes
        assert changes is not None
        maybe = late.keys_maybe_late(model, query, str(last.high_watermark), self.shape)
        keys = self._keys(maybe, found.late, self._source_rows)
        seen = late.seen(self.spark, model, changes, self.upstreams, offsets_of(last))
        return late.newest_seen(model, seen, keys, found, self.shape)

    @property
    def _source_rows(self) -> int:
        return sum(state.rows for state in self.upstreams.states.values() if state)

    def _net_rows(self, query: DataFrame, net: DataFrame, found: events.Profile) -> DataFrame:
        model, spark, state, shape = self.model, self.spark, self.context.state, self.shape
        ordered = model.config.sequence_by is not None
        if self.decision.mode == "full":
            return refresh_changes(net, self._all_old(), shape, ordered, found.high_watermark)
        if model.config.changelog == "input" and state.base is not None:
            return input_changes(net, shape)
        only = self._keys(query.select(*[column(part) for part in model.config.primary_key]), found.events)
        base = base_rows(spark, model, state, only)
        unmerged = unmerged_changes(spark, model, state, self._thresholds.pruning, only)
        return event_changes(net, base, unmerged, shape, model.config.on_match, ordered)
