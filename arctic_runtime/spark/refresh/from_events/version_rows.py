"""Computes change rows of tables with history, in which events open and close versions of rows."""

from __future__ import annotations

from pyspark.sql import DataFrame

from arctic_runtime.model.run_summary import RunSummary, find_last_load, get_offsets
from arctic_runtime.spark.changes.diff import diff_states, emit_image_changes
from arctic_runtime.spark.history import bitemporal, earlier_events
from arctic_runtime.spark.history.event_versions import (
    build_event_images,
    check_history_is_kept,
    find_oldest_changed,
    fold_to_versions,
    select_affected_versions,
)
from arctic_runtime.spark.history.versions import find_place_type
from arctic_runtime.spark.refresh.attempt import PreparedAttempt
from arctic_runtime.spark.refresh.from_events.past_events import read_past_events
from arctic_runtime.spark.refresh.from_events.window import EventWindow
from arctic_runtime.spark.tables.rows import marks


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
    is_recomputed = known is not None and earlier_events.needs_all_events(model.config)
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
    earlier = earlier_events.select_placed(model, seen)
    needing_keys = earlier_events.select_keys_needing_earlier(model, window.events, shape, last)
    keys = attempt.find_source_keys(needing_keys, profile.needing_earlier)
    assert profile.oldest_needing_earlier is not None
    oldest = marks.read_earliest(profile.oldest_needing_earlier, shape.sequence_type)
    if not earlier_events.needs_all_events(model.config):
        time = profile.oldest_time_needing_earlier
        oldest_time = None if time is None else marks.read_earliest(time, find_place_type(shape))
        return earlier_events.select_later(model, earlier, keys, oldest, oldest_time)
    cached = attempt.cache(earlier_events.select_overtaken_keys(model, window.events, earlier, keys, oldest))
    count = cached.count()
    return attempt.find_source_keys(cached, count).select_rows(earlier, model.config.entity_key) if count else None
