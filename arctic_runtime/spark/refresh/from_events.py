"""Computes change rows from the change events that a run reads.

In a table without history, the net event of each key is compared with the key's stored row: it has the combined effect
of all events of the key that the run reads. In a table with history, events open and close versions of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.run_summary import RunSummary, find_last_load, find_last_run, get_offsets
from arctic_runtime.model.shape import Shape, is_named
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.spark.changes.diff import (
    diff_events,
    diff_states,
    emit_image_changes,
    emit_input_changes,
    refresh_changes,
)
from arctic_runtime.spark.events import flows, late
from arctic_runtime.spark.events.order import check_order
from arctic_runtime.spark.events.profile import EventProfile, check_profile, profile_events
from arctic_runtime.spark.events.retract import check_retractions
from arctic_runtime.spark.events.rules import EventRules, blend_rows, choose_rules, is_delete, net_events
from arctic_runtime.spark.events.truncate import drop_declared, drop_truncated, is_truncation, spread_truncations
from arctic_runtime.spark.history import bitemporal, event_versions
from arctic_runtime.spark.history.event_versions import (
    build_event_images,
    check_history_is_kept,
    find_oldest_changed,
    fold_to_versions,
    select_affected_versions,
)
from arctic_runtime.spark.history.versions import find_place_type
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.query_inputs import read_past_events, read_seen_places
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import read_stored_rows


@dataclass(frozen=True)
class EventWindow:
    """The change events that one run reads, and facts about them."""

    events: DataFrame
    """The events, as rows of the model's query; those that an overwrite or a truncation makes void are left out."""

    profile: EventProfile
    """Counts of the events, and their lowest and highest values of `sequence_by`."""

    last: RunSummary | None
    """Record of the last run; None in a first run or a full refresh, which read all events."""


def compute_from_events(attempt: PreparedAttempt) -> Computed:
    """Checks the events that the query returns, and computes the change rows by which these events change stored rows.

    Raises DataError or ConfigError if the events are not valid, such as for a null in the key.
    """
    model, state, shape = attempt.model, attempt.context.state, attempt.shape
    last = None if attempt.decision.mode in ("create", "full") else find_last_run(state.changes)
    declared = (last.declared if last else None) or Declared()
    truncated = last.truncated if last else None
    events = drop_declared(model, attempt.query, shape, declared)
    events = drop_truncated(model, events, shape.sequence_type, truncated)
    profile = profile_events(model, events, shape, last)
    check_profile(model, events, profile)
    check_order(model, choose_rules(model, shape).orders, events)
    check_retractions(model, events, profile.retracted, profile.unknown_before, is_delete(model, events))
    if profile.truncations:
        truncated = profile.truncated
        events = attempt.cache(spread_truncations(model, events, _list_keys_to_empty(attempt, events)))
        profile = profile_events(model, events, shape, last)
    compute = compute_version_rows if model.config.has_history else compute_net_rows
    rows = compute(attempt, EventWindow(events, profile, last))
    is_ordered = model.config.sequence_by is not None
    summary = RunSummary(
        high_watermark=profile.high_watermark if is_ordered else None,
        truncated=truncated if is_ordered else None,
        newest_valid_time=profile.newest_valid_time,
        restored=last.restored if last else None,
        declared=declared,
    )
    # Rows of versions are already shuffled by key, into as many partitions as they need.
    is_gathered = state.base is None or model.config.has_history
    return Computed(rows, summary, is_gathered, keys=profile.events)


def select_live_rows(net: DataFrame, shape: Shape) -> DataFrame:
    """Selects the rows that net events make, with the columns that the events give."""
    positions = [(i, column.name) for i, column in enumerate(shape.columns) if is_named(column.name, shape.given)]
    return net.where("not deleted").select(*[F.col(f"a{i}").alias(name) for i, name in positions])


def _list_keys_to_empty(attempt: PreparedAttempt, events: DataFrame) -> DataFrame:
    """Returns the keys that a truncation, an event that empties the table, may delete.

    These are the keys of all stored rows, and of the other events that the run reads.
    """
    made = attempt.select_key(events.where(~is_truncation(attempt.model, events)))
    old = attempt.read_rows()
    return made if old is None else made.unionAll(attempt.select_key(old))


def compute_net_rows(attempt: PreparedAttempt, window: EventWindow) -> DataFrame:
    """Computes the change rows that apply the events of `window` to a table without history."""
    model, state, shape = attempt.model, attempt.context.state, attempt.shape
    rules = choose_rules(model, shape)
    net = _net_events(attempt, rules, window)
    if attempt.decision.mode == "full":
        return refresh_changes(net, attempt.read_all_rows(), shape, window.profile.high_watermark)
    if model.config.changelog == "input" and state.base is not None:
        return emit_input_changes(net, shape)
    only = attempt.find_keys(attempt.select_key(window.events), window.profile.events)
    stored = read_stored_rows(attempt.spark, model, state, attempt.thresholds.pruning, only)
    return diff_events(net, stored, shape, partial(blend_rows, rules))


def _net_events(attempt: PreparedAttempt, rules: EventRules, window: EventWindow) -> DataFrame:
    """Computes the net event of each key in `window`, with the combined effect of the key's events.

    Late events, which come after newer ones of their key, are handled as `rules` say: they are dropped, applied like
    other events, or the row of their key is recomputed from all events that the key ever had.
    """
    events, last = window.events, window.last
    if last is None:
        return net_events(rules, events)
    match rules.late_events:
        case "lose" if window.profile.late:
            return net_events(rules, late.drop_late(attempt.model, events, _find_newest_seen(attempt, window, last)))
        case "recompute" if window.profile.late:
            newest = _find_newest_seen(attempt, window, last)
            return _recompute_keys(attempt, rules, window, late.find_late_keys(attempt.model, events, newest))
        case "recompute_by_flow":
            old = attempt.read_rows(attempt.find_keys(attempt.select_key(events), window.profile.events))
            if old is not None:
                return _recompute_keys(attempt, rules, window, flows.find_late_keys(attempt.model, events, old))
    return net_events(rules, events)


def _recompute_keys(attempt: PreparedAttempt, rules: EventRules, window: EventWindow, keys: DataFrame) -> DataFrame:
    """Computes the net event of each key in `window`; for the keys in `keys`, from all events that were ever read.

    The net events of `keys` have the flag `reset`, since they do not depend on stored values.
    """
    model, shape = attempt.model, attempt.shape
    assert window.last is not None
    cached = attempt.cache(keys)
    count = cached.count()
    if not count:
        return net_events(rules, window.events)
    late.check_all_is_kept(model, attempt.upstreams, window.last)
    history = read_past_events(attempt.spark, model, attempt.upstreams, "all", attempt.decision.consumed)
    history = spread_truncations(model, history, cached)
    events = attempt.find_source_keys(cached, count).select_rows(history, model.config.primary_key)
    check_profile(model, events, profile_events(model, events, shape, None))
    check_order(model, rules.orders, events)
    others = net_events(rules, late.drop_keys(model, window.events, cached))
    return others.unionByName(net_events(rules, events).withColumn("reset", F.lit(True)))


def _find_newest_seen(attempt: PreparedAttempt, window: EventWindow, last: RunSummary) -> DataFrame:
    """Returns the newest `sequence_by` value that earlier runs have read, for each key that may have a late event."""
    model, shape, changes = attempt.model, attempt.shape, attempt.context.state.changes
    assert changes is not None
    assert window.profile.oldest_late is not None
    maybe = late.select_maybe_late_keys(model, window.events, str(last.high_watermark), shape)
    keys = attempt.find_source_keys(maybe, window.profile.late)
    seen = read_seen_places(attempt.spark, model, changes, attempt.upstreams, get_offsets(last))
    return late.find_newest_seen(model, seen, keys, window.profile.oldest_late, shape)


def compute_version_rows(attempt: PreparedAttempt, window: EventWindow) -> DataFrame:
    """Computes the change rows by which the events of `window` open, close or change versions of rows.

    Except in a full refresh, it reads only the stored versions that these events may change.
    """
    model, shape, events = attempt.model, attempt.shape, window.events
    if model.config.valid_time:
        bitemporal.check_valid_times(model, events)
    if attempt.decision.mode == "full":
        return _recompute_versions(attempt, events)
    old = attempt.read_rows(attempt.find_keys(attempt.select_key(events), window.profile.events))
    last = window.last
    known = find_earlier_events(attempt, window, last) if last is not None and window.profile.needing_earlier else None
    is_recomputed = known is not None and event_versions.needs_all_events(model.config)
    oldest = find_oldest_changed(model.config, window.profile.oldest, is_recomputed)
    old = select_affected_versions(old, oldest, shape)
    if model.config.valid_time and old is not None:
        old = bitemporal.select_recorded(old)
    images = build_event_images(events, known, old, shape, model)
    return _record_versions(attempt, images) if model.config.valid_time else emit_image_changes(images, shape)


def _recompute_versions(attempt: PreparedAttempt, events: DataFrame) -> DataFrame:
    """Computes the change rows of a full refresh: they turn all stored versions into those computed from `events`.

    `events` has all events that the upstreams of the table still have.
    """
    model, shape = attempt.model, attempt.shape
    check_history_is_kept(model, attempt.upstreams.states)
    versions, stored = fold_to_versions(events, shape, model), attempt.read_all_rows()
    if not model.config.valid_time:
        return diff_states(versions, stored, shape, keyed=True)
    return _record_versions(attempt, bitemporal.pair_versions(versions, stored, shape, model))


def _record_versions(attempt: PreparedAttempt, images: DataFrame) -> DataFrame:
    """Builds the change rows of a bitemporal table from `images`, pairs of a new and a recorded version."""
    time = bitemporal.find_record_time(attempt.context.now, find_last_load(attempt.context.state.changes))
    return bitemporal.record_versions(images, attempt.shape, attempt.model.config, time)


def find_earlier_events(attempt: PreparedAttempt, window: EventWindow, last: RunSummary) -> DataFrame | None:
    """Reads the events of earlier runs without which this run can't apply its events; None if there are none.

    Also returns None if the table was restored, since the restore has undone some of the earlier events.
    """
    if last.restored is not None:
        return None
    model, shape, profile = attempt.model, attempt.shape, window.profile
    seen = read_past_events(attempt.spark, model, attempt.upstreams, "seen", get_offsets(last))
    earlier = event_versions.select_placed(model, seen)
    needing_keys = event_versions.select_keys_needing_earlier(model, window.events, shape, last)
    keys = attempt.find_source_keys(needing_keys, profile.needing_earlier)
    assert profile.oldest_needing_earlier is not None
    oldest = marks.read_earliest(profile.oldest_needing_earlier, shape.sequence_type)
    if not event_versions.needs_all_events(model.config):
        time = profile.oldest_time_needing_earlier
        oldest_time = None if time is None else marks.read_earliest(time, find_place_type(shape))
        return event_versions.select_later(model, earlier, keys, oldest, oldest_time)
    cached = attempt.cache(event_versions.select_overtaken_keys(model, window.events, earlier, keys, oldest))
    count = cached.count()
    return attempt.find_source_keys(cached, count).select_rows(earlier, model.config.entity_key) if count else None
