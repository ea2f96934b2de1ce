"""Computes change rows of tables without history: compares the net event of each key with the key's stored row.

The net event of a key has the combined effect of all events of the key that a run reads.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.run_summary import RunSummary, get_offsets
from arctic_runtime.spark.changes.diff import diff_events, emit_input_changes, refresh_changes
from arctic_runtime.spark.events import flows, late
from arctic_runtime.spark.events.net import blend_rows, net_events
from arctic_runtime.spark.events.order import check_order
from arctic_runtime.spark.events.profile import check_profile, profile_events
from arctic_runtime.spark.events.rules import EventRules, choose_rules
from arctic_runtime.spark.events.truncate import spread_truncations
from arctic_runtime.spark.refresh.attempt import PreparedAttempt
from arctic_runtime.spark.refresh.from_events.past_events import read_past_events, read_seen_places
from arctic_runtime.spark.refresh.from_events.window import EventWindow
from arctic_runtime.spark.tables.rows.frames import read_stored_rows


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
