"""Computes the change rows of one attempt of a run, from all rows of a query, its events, or changes of its sources."""

from __future__ import annotations

from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.from_events.compute import compute_from_events
from arctic_runtime.spark.refresh.from_query.compute import QueryComputation


def compute_changes(attempt: PreparedAttempt) -> Computed:
    """Computes the change rows of one attempt of a run; must be called within a `with attempt.caching()` block.

    It publishes nothing. Raises NotMaintained if an incremental refresh turns out to be impossible or too expensive.
    """
    if attempt.request.schema_only:
        return Computed(diff_states(attempt.query.limit(0), None, attempt.shape))
    if attempt.model.config.input == "changes":
        return compute_from_events(attempt)
    return QueryComputation(attempt).compute()
