"""The change rows of one attempt: from the query's rows, its events, or the changes of its sources."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import HAS_AFTER, MULTIPLICITY, Node, list_scans
from arctic_runtime.ivm.rewrite.bounds import narrow_sources
from arctic_runtime.ivm.rewrite.semi_join_reducers import SemiJoinReducer
from arctic_runtime.ivm.rewrite.statistics import Statistics
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState, hash_state
from arctic_runtime.ivm.strategies.maintain import AFFECTED, AffectedKeys, Deltas
from arctic_runtime.ivm.strategies.pairs import Pairs
from arctic_runtime.ivm.strategies.spool import Spool
from arctic_runtime.model.declared import Declared
from arctic_runtime.model.run_summary import RunSummary, find_last_load, find_last_run, get_offsets
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.plan.decide import Decision
from arctic_runtime.plan.increment import Increment, Upstreams, collect_statistics, drop_aggregate_state, is_keyed
from arctic_runtime.spark.engine.parallel import Parallel
from arctic_runtime.spark.refresh import aggregate_state as totals
from arctic_runtime.spark.refresh import (
    beliefs,
    earlier_events,
    events,
    flows,
    increments,
    late,
    retractions,
    row_versions,
    semi_join_reducers,
    truncations,
)
from arctic_runtime.spark.refresh.diff import (
    build_delta_images,
    build_pair_images,
    diff_deltas,
    diff_events,
    diff_pairs,
    diff_states,
    emit_image_changes,
    emit_input_changes,
    refresh_changes,
)
from arctic_runtime.spark.tables.bounds import EVERYWHERE, collect_bounds, lookup_keys
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.frames import (
    Keys,
    as_key,
    read_base_rows,
    read_current_rows,
    read_folded_rows,
    read_unmerged_changes,
    to_column,
)
from arctic_runtime.thresholds import Thresholds


@dataclass(frozen=True)
class Computed:
    """Change rows before they are written, and the summary of their commit.

    `is_gathered`: their number of partitions fits their size. `is_pinned`: all inputs were read as of the offsets, so
    later commits do not matter. `as_decided`: they were computed in the way whose cost was estimated. `keys`: estimated
    lookups in the table while the rows are written; 0 means unknown.
    """

    rows: DataFrame
    summary: RunSummary = field(default_factory=RunSummary)
    is_gathered: bool = False
    is_pinned: bool = True
    as_decided: bool = True
    keys: int = 0


class Computation:
    """The computation of one attempt's change rows: from the query's rows, its events, or its sources' changes.

    The background work in `beside` has to finish before the change rows are published. Plans have join hints if
    `has_join_hints`. The analysis of the query is trusted if Spark reads the query in the same way (`is_same`). After
    `compute`, even if it raised, `learned` are entries for the summary of the run's commit.
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
        has_join_hints: bool = True,
        is_same: bool = False,
    ) -> None:
        self.context = context
        self.decision = decision
        self.query = query
        self.shape = shape
        self.upstreams = upstreams
        self.beside = beside
        self.schema_only = schema_only
        self.has_join_hints = has_join_hints
        self.is_same = is_same
        self.learned = RunSummary()
        self._held: list[DataFrame] = []
        self._registered_reducers: list[SemiJoinReducer] = []
        self._registered_spools: list[Spool] = []

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
        """The change rows; call it inside `held`. It writes nothing that readers see.

        Raises NotMaintained if an incremental refresh turns out to be impossible or too expensive.
        """
        if self.schema_only:
            return Computed(diff_states(self.query.limit(0), None, self.shape))
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

    @property
    def _needs_old(self) -> bool:
        """Whether change rows need what only the table has: columns that the query lacks, or closed versions."""
        return self.shape.keeps_more or (self.model.config.has_history and not self.model.config.keep_deleted)

    @property
    def _entities(self) -> Shape:
        return row_versions.entity_shape(self.model.config, self.shape)

    def _all_old(self) -> DataFrame | None:
        """The table's rows; for a repair, the rows that its change rows fold to, since readers have seen those."""
        changes = self.context.state.changes
        if self.decision.repairs and changes is not None:
            return read_folded_rows(self.spark, self.model, changes)
        return read_current_rows(self.spark, self.model, self.context.state, self._thresholds.pruning)

    def follow(self, increment: Increment) -> Computed:
        if not isinstance(increment.maintenance, AggregateState):
            self._register(increment, increment.trees)
        match increment.maintenance:
            case Deltas(changes):
                if increments.has_maps(self.query):
                    raise NotMaintained(
                        "UNSUPPORTED", "the query has a map column, and rows with maps can't be grouped"
                    )
                moved = increments.compute_deltas(self.spark, changes, increment, self.query)
                if self._needs_old:
                    moved = self._hold(moved)
                    return self._looked_up(moved.where(F.col(MULTIPLICITY) > 0).drop(MULTIPLICITY), moved)
                if self.model.config.has_history:
                    return self._followed_versions(build_delta_images(moved, MULTIPLICITY, self._entities))
                return Computed(diff_deltas(moved, MULTIPLICITY, self.shape), is_gathered=True)
            case Pairs(rows):
                pairs = increments.compute_pairs(self.spark, rows, increment, self.query)
                if self._needs_old:
                    pairs = self._hold(pairs)
                    return self._looked_up(
                        pairs.where(F.col(HAS_AFTER)).select(*[to_column(part) for part in self.query.columns]), pairs
                    )
                if self.model.config.has_history:
                    return self._followed_versions(build_pair_images(pairs, self._entities))
                return Computed(diff_pairs(pairs, self.shape), is_gathered=True)
            case AggregateState() as plan:
                return self._added_up(increment, plan)
            case AffectedKeys() as plan:
                return self._recomputed(increment, plan)

    def _register(self, increment: Increment, trees: Sequence[Node]) -> None:
        """Creates the views that trees read. The views of semi-join reducers and spools are created once."""
        parts = increment.select_reducers(trees)
        needed = (*trees, *(tree for part in parts for tree in part.trees))
        spools = [one for one in increment.select_spools(needed) if one not in self._registered_spools]
        needed = (*needed, *(one.rows for one in spools))
        windows, thresholds = self.decision.windows, self._thresholds
        increments.register_images(self.spark, needed, self.upstreams, windows, thresholds, self._hold)
        increments.register_spools(self.spark, spools, self._hold)
        self._registered_spools.extend(spools)
        if not self._registered_reducers:
            semi_join_reducers.register_reducers(self.spark, parts, self.upstreams, windows, thresholds, self._hold)
            self._registered_reducers.extend(parts)

    def _added_up(self, increment: Increment, plan: AggregateState) -> Computed:
        """Change rows of the groups whose state changed, or of all groups if no state is stored; writes the state."""
        found = totals.update_aggregate_state(
            self.context, plan, partial(self._register, increment), self._hold, self.beside
        )
        if found is None:
            self.learned = RunSummary(no_aggregate_state=hash_state(plan))
            return replace(self.follow(drop_aggregate_state(increment)), as_decided=False)
        summary = RunSummary(aggregate_state=hash_state(plan))
        now = increments.as_query(found.now, increment, self.query)
        if found.before is None:
            changes = self._changes(now, self._all_old())
            return replace(changes, summary=changes.summary.with_entries_from(summary), as_decided=False)
        before = increments.as_query(found.before, increment, self.query)
        if self._needs_old or self.model.config.has_history:
            looked_up = self._looked_up(now, self._hold(now.unionAll(before)))
            return replace(looked_up, summary=looked_up.summary.with_entries_from(summary))
        # Groups that are joined to nothing are few rows, so one partition is enough.
        return replace(self._changes(now, before, in_one_part=not list_scans(plan.result)), summary=summary)

    def _recomputed(self, increment: Increment, plan: AffectedKeys) -> Computed:
        keys = self._hold(increments.compute_affected_keys(self.spark, plan.affected))
        count = keys.count()
        key = zip(increment.key, self.model.config.entity_key, strict=True)
        old = self._old(keys.select(*[to_column(own).alias(part) for own, part in key]), count)
        is_large = increment.count_rows_read(self.upstreams) > self._thresholds.incremental.large_source_rows
        if self.model.config.refresh == "auto" and is_large and self._are_most(old, count):
            raise NotMaintained("COST", f"the rows of {count:,} keys may differ, which are most rows of the table")
        sought = (collect_bounds(keys, count, self._thresholds.pruning) or ()) if is_large else ()
        new = narrow_sources(plan.new, AFFECTED, sought) if is_large else plan.new
        statistics = self._statistics() if self.has_join_hints else Statistics()
        new = statistics.with_spool(AFFECTED, count).with_join_hints(new)
        now = increments.recompute_affected_rows(self.spark, new, keys, increment, self.query)
        return self._changes(now, old)

    def _statistics(self) -> Statistics:
        return collect_statistics(self.upstreams, self.decision.windows, self._thresholds.joins)

    def _are_most(self, old: DataFrame | None, count: int) -> bool:
        """Whether `old`, the rows with `count` affected keys, are most of the table's; keys may have no row."""
        base = self.context.state.base
        if old is None or base is None:
            return False
        most = self._thresholds.incremental.affected_share * base.rows
        return count > most and old.count() > most

    def _looked_up(self, added: DataFrame, changed: DataFrame) -> Computed:
        """Change rows for a table with columns that the query no longer has: only the table holds their values.

        `changed`, rows that are held, has the keys of all added and removed rows.
        """
        key = [to_column(part) for part in self.model.config.entity_key]
        return self._changes(added, self._old(changed.select(*key), changed.count()))

    def _old(self, keys: DataFrame, count: int | None) -> DataFrame | None:
        """The table's rows with `keys`, which are named as the table's key; `count` of them, None if unknown."""
        found = self._keys(keys, count)
        return read_current_rows(self.spark, self.model, self.context.state, self._thresholds.pruning, found)

    def _changes(self, new: DataFrame, old: DataFrame | None, in_one_part: bool = False) -> Computed:
        """Change rows that turn the table's `old` rows into the query's `new` rows; few rows in one partition."""
        keyed = self.is_same and is_keyed(self.model, self.upstreams, self.decision.increment)
        in_one_part = old is not None and (in_one_part or self._reads_little())
        if old is not None and in_one_part:
            new, old = new.coalesce(1), old.coalesce(1)
        is_gathered = old is None or in_one_part
        if not self.model.config.has_history:
            return Computed(diff_states(new, old, self.shape, keyed), is_gathered=is_gathered)
        time = self._time
        rows = row_versions.query_versions(new, old, self.shape, self.model.config, time, keyed)
        return Computed(rows, RunSummary(high_watermark=time.isoformat()), is_gathered)

    def _followed_versions(self, images: DataFrame) -> Computed:
        """Change rows of versions, from images of the query's rows before and after their change."""
        held, time = self._hold(images), self._time
        places = row_versions.Places.of(self.model.config, self.shape)
        key = zip(places.entity, self.model.config.entity_key, strict=True)
        old = self._old(held.select(*[F.col(f"a{i}").alias(part) for i, part in key]), held.count())
        assert old is not None
        rows = row_versions.followed_versions(held, old, self.shape, self.model.config, time)
        return Computed(rows, RunSummary(high_watermark=time.isoformat()))

    @property
    def _time(self) -> datetime.datetime:
        """The time of the changes that this run finds in a query's rows."""
        return row_versions.time_of_run(self.context.now, find_last_run(self.context.state.changes))

    def _reads_little(self) -> bool:
        """Whether the table and the sources of its query have few rows."""
        base, states = self.context.state.base, self.upstreams.states.values()
        rows = sum(math.inf if state is None else state.rows for state in states)
        return rows + (base.rows if base else 0) <= self._thresholds.incremental.single_task_rows

    def _keys(self, keys: DataFrame, count: int | None, table_rows: int | None = None) -> Keys:
        """Keys for lookups in the table, or in another table with `table_rows` rows; named as the table's key."""
        if count is None:
            return Keys(keys.select(*as_key(self.model.config.entity_key)), few=False, near=EVERYWHERE)
        base = self.context.state.base
        rows = (base.rows if base else 0) if table_rows is None else table_rows
        return lookup_keys(keys, count, rows, self._thresholds.pruning)

    def _folded(self) -> Computed:
        """The net event of each key, with the old row looked up."""
        model, state, query = self.model, self.context.state, self.query
        afresh = self.decision.mode in ("create", "full")
        last = None if afresh else find_last_run(state.changes)
        declared = (last.declared if last else None) or Declared()
        truncated = last.truncated if last else None
        query = truncations.after(
            model, events.after(model, query, self.shape, declared), self.shape.sequence_type, truncated
        )
        found = events.profile(model, query, self.shape, last)
        events.check_profile(model, query, found)
        events.check_order(model, query)
        retractions.check(model, query, found.retracted, found.untold, events.is_delete(model, query))
        if found.truncations:
            truncated = found.truncated
            query = self._hold(truncations.spread(model, query, self._keys_to_empty(query)))
            found = events.profile(model, query, self.shape, last)
        folded = self._version_rows if model.config.has_history else self._net_rows
        high = found.high_watermark
        summary = RunSummary(
            high_watermark=high if model.config.sequence_by else None,
            truncated=truncated if model.config.sequence_by else None,
            newest_valid_time=found.newest_valid_time,
            restored=last.restored if last else None,
            declared=declared,
        )
        rows = folded(query, found, last)
        # Versions are moved by key already, to as many partitions as they need.
        is_gathered = state.base is None or model.config.has_history
        return Computed(rows, summary, is_gathered, keys=found.events)

    def _keys_to_empty(self, query: DataFrame) -> DataFrame:
        """The keys of the rows that are there, or that events of this run make."""
        key = [to_column(part) for part in self.model.config.primary_key]
        made = query.where(~truncations.is_truncation(self.model, query)).select(*key)
        old = read_current_rows(self.spark, self.model, self.context.state, self._thresholds.pruning)
        return made if old is None else made.unionAll(old.select(*key))

    def _net_with_late(self, query: DataFrame, found: events.Profile, last: RunSummary) -> DataFrame:
        """The net events if some are late.

        If the newest event is the row, older ones lose. Else the row follows from all events of the key.
        """
        model, shape = self.model, self.shape
        newest = self._newest_seen(query, found, last)
        if events.is_newest_event(model):
            return events.net_events(model, late.in_order(model, query, newest), shape)
        return self._net_of_late_keys(query, late.late_keys(model, query, newest), last)

    def _net_of_late_flows(self, query: DataFrame, found: events.Profile, last: RunSummary) -> DataFrame:
        """The net events of flows whose events may lack columns: a late one may be the newest with a column."""
        only = self._keys(query.select(*[to_column(part) for part in self.model.config.primary_key]), found.events)
        old = read_current_rows(self.spark, self.model, self.context.state, self._thresholds.pruning, only)
        if old is None:
            return events.net_events(self.model, query, self.shape)
        return self._net_of_late_keys(query, flows.late_keys(self.model, query, old), last)

    def _net_of_late_keys(self, query: DataFrame, late_keys: DataFrame, last: RunSummary) -> DataFrame:
        """The net events where the rows of some keys follow from all their events, of earlier runs as well."""
        model, shape = self.model, self.shape
        keys = self._hold(late_keys)
        count = keys.count()
        if not count:
            return events.net_events(model, query, shape)
        late.check_all_is_kept(model, self.upstreams, last)
        history = late.events_until(self.spark, model, self.upstreams, "all", self.decision.consumed)
        history = truncations.spread(model, history, keys)
        folded = self._keys(keys, count, self._source_rows).select_rows(history, model.config.primary_key)
        events.check_profile(model, folded, events.profile(model, folded, shape, None))
        events.check_order(model, folded)
        others = events.net_events(model, late.without(model, query, keys), shape)
        return others.unionByName(events.net_events(model, folded, shape).withColumn("reset", F.lit(True)))

    def _newest_seen(self, query: DataFrame, found: events.Profile, last: RunSummary) -> DataFrame:
        """The newest `sequence_by` value read so far, for each key that may have a late event."""
        model, changes = self.model, self.context.state.changes
        assert changes is not None
        maybe = late.keys_maybe_late(model, query, str(last.high_watermark), self.shape)
        keys = self._keys(maybe, found.late, self._source_rows)
        seen = late.seen(self.spark, model, changes, self.upstreams, get_offsets(last))
        return late.newest_seen(model, seen, keys, found, self.shape)

    @property
    def _source_rows(self) -> int:
        return sum(state.rows for state in self.upstreams.states.values() if state)

    def _version_rows(self, query: DataFrame, found: events.Profile, last: RunSummary | None) -> DataFrame:
        """Change rows of versions; of stored ones, those that are valid at the oldest event or later are read."""
        model, shape, state = self.model, self.shape, self.context.state
        if model.config.valid_time:
            beliefs.check_valid_times(model, query)
        if self.decision.mode == "full":
            row_versions.check_history_is_kept(model, self.upstreams.states)
            versions, stored = row_versions.rows_of_events(query, shape, model), self._all_old()
            if not model.config.valid_time:
                return diff_states(versions, stored, shape, keyed=True)
            return self._recorded(beliefs.refreshed(versions, stored, shape, model))
        only = self._keys(query.select(*[to_column(part) for part in model.config.entity_key]), found.events)
        old = read_current_rows(self.spark, model, state, self._thresholds.pruning, only)
        known = self.find_earlier_events(query, found, last) if last is not None and found.asking else None
        is_recomputed = known is not None and earlier_events.needs_all_events(model.config)
        oldest = row_versions.oldest_changed(model.config, found.oldest, is_recomputed)
        old = row_versions.affected_versions(old, oldest, shape)
        if model.config.valid_time and old is not None:
            old = beliefs.said_now(old)
        images = row_versions.event_images(query, known, old, shape, model)
        return self._recorded(images) if model.config.valid_time else emit_image_changes(images, shape)

    def _recorded(self, images: DataFrame) -> DataFrame:
        """Change rows of a bitemporal table."""
        time = beliefs.time_of_run(self.context.now, find_last_load(self.context.state.changes))
        return beliefs.recorded(images, self.shape, self.model.config, time)

    def find_earlier_events(self, query: DataFrame, found: events.Profile, last: RunSummary) -> DataFrame | None:
        """Events of earlier runs that those of this run depend on; none after a restore, which undid some of them."""
        if last.restored is not None:
            return None
        model, shape = self.model, self.shape
        seen = late.events_until(self.spark, model, self.upstreams, "seen", get_offsets(last))
        earlier = earlier_events.select_placed(model, seen)
        asking = earlier_events.select_asking_keys(model, query, shape, last)
        keys = self._keys(asking, found.asking, self._source_rows)
        assert found.oldest_asking is not None
        if not earlier_events.needs_all_events(model.config):
            oldest_time = found.oldest_asking_time
            return earlier_events.select_later(model, earlier, keys, found.oldest_asking, oldest_time, shape)
        overtaken = earlier_events.select_overtaken_keys(model, query, earlier, keys, found.oldest_asking, shape)
        count = (held := self._hold(overtaken)).count()
        return (
            self._keys(held, count, self._source_rows).select_rows(earlier, model.config.entity_key) if count else None
        )

    def _net_rows(self, query: DataFrame, found: events.Profile, last: RunSummary | None) -> DataFrame:
        model, spark, state, shape = self.model, self.spark, self.context.state, self.shape
        if last is not None and found.late:
            net = self._net_with_late(query, found, last)
        elif last is not None and model.config.sequence_groups and model.config.has_partial_events:
            net = self._net_of_late_flows(query, found, last)
        else:
            net = events.net_events(model, query, shape)
        ordered = model.config.sequence_by is not None
        if self.decision.mode == "full":
            return refresh_changes(net, self._all_old(), shape, ordered, found.high_watermark)
        if model.config.changelog == "input" and state.base is not None:
            return emit_input_changes(net, shape)
        only = self._keys(query.select(*[to_column(part) for part in model.config.primary_key]), found.events)
        base = read_base_rows(spark, model, state, only)
        unmerged = read_unmerged_changes(spark, model, state, self._thresholds.pruning, only)
        return diff_events(net, base, unmerged, shape, ordered, events.blend(model))
