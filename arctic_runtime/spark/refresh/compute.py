"""Computes the change rows of one attempt of a run, from all rows of a query, its events, or changes of its sources."""

from __future__ import annotations

from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.refresh.from_events.compute import compute_from_events
from arctic_runtime.spark.refresh.from_query.compute import QueryComputation
from arctic_runtime.spark.refresh.inputs import Computed, RefreshInputs


def compute_changes(inputs: RefreshInputs) -> Computed:
    """Computes the change rows of one attempt of a run; must be called within a `with inputs.caching()` block.

    It publishes nothing. Raises NotMaintained if an incremental refresh turns out to be impossible or too expensive.
    """
    if inputs.schema_only:
        return Computed(diff_states(inputs.query.limit(0), None, inputs.shape))
    if inputs.model.config.input == "changes":
        return compute_from_events(inputs)
    return QueryComputation(inputs).compute()
