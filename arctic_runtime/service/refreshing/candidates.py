"""Determines, at the start of a pass, the models with changed upstreams, and the models that may wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.model_graph import ModelGraph
from arctic_runtime.service.refreshing.model_records import FollowedTables, Heads, Record
from arctic_runtime.service.refreshing.refresh_pass import RefreshCandidate


@dataclass(frozen=True)
class ModelStatus:
    """State of a model between passes: its record, the relations that it depends on, and its target lag in seconds.

    `is_paused` is whether users paused the model; then the models below it are not refreshed either, as after a
    failure.
    """

    record: Record
    tables: FollowedTables
    lag_seconds: float
    is_paused: bool = False


def list_candidates(
    graph: ModelGraph, models: Mapping[TableName, ModelStatus], heads: Heads, now: float
) -> dict[TableName, RefreshCandidate]:
    """Determines for each model of a group whether it has news, is paused, or may be delayed at the time `now`.

    `heads` are the current metadata files of relations; `now` is a time of the follower's monotonic clock.

    A delayed model is refreshed earlier if a model below it, whose other tables have changed, has waited for it as long
    as the longest target lag among these models. Otherwise two lags whose times never coincide would delay the lower
    model forever.
    """
    has_lags = any(status.lag_seconds for status in models.values())
    pulled = _find_pulled_models(graph, models, now) if has_lags else set()
    return {
        model: RefreshCandidate(
            status.record.find_news(status.tables, heads, now, status.lag_seconds),
            status.record.is_paused(now) or status.is_paused,
            model not in pulled and status.record.is_delayed(now, status.lag_seconds),
        )
        for model, status in models.items()
    }


def _find_pulled_models(graph: ModelGraph, models: Mapping[TableName, ModelStatus], now: float) -> set[TableName]:
    """Returns the models to refresh before their target lag, because a model below them has waited long enough.

    Models that fail, or are below a failing one, don't count as waiting.
    """
    failing = frozenset(model for model, status in models.items() if status.record.failures)
    return {
        above
        for model, status in models.items()
        if (synchronized := graph.models_with_shared_origins[model])
        and not failing & {model, *graph.origins[model]}
        and status.record.is_due(now, max(models[member].lag_seconds for member in (*synchronized, model)))
        for above in synchronized
    }
