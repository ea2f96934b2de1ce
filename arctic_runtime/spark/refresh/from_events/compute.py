"""Computes change rows from the change events that a run reads."""

from __future__ import annotations

from pyspark.sql import DataFrame

from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.spark.events.declared import drop_declared
from arctic_runtime.spark.events.net import is_delete
from arctic_runtime.spark.events.order import check_order
from arctic_runtime.spark.events.profile import check_profile, profile_events
from arctic_runtime.spark.events.retract import check_retractions
from arctic_runtime.spark.events.rules import choose_rules
from arctic_runtime.spark.events.truncate import drop_truncated, is_truncation, spread_truncations
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.from_events.net_rows import compute_net_rows
from arctic_runtime.spark.refresh.from_events.version_rows import compute_version_rows
from arctic_runtime.spark.refresh.from_events.window import EventWindow


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


def _list_keys_to_empty(attempt: PreparedAttempt, events: DataFrame) -> DataFrame:
    """Returns the keys that a truncation, an event that empties the table, may delete.

    These are the keys of all stored rows, and of the other events that the run reads.
    """
    made = attempt.select_key(events.where(~is_truncation(attempt.model, events)))
    old = attempt.read_rows()
    return made if old is None else made.unionAll(attempt.select_key(old))
