"""The models of a group as a pass finds them: what has news, and what may wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.model_graph import ModelGraph
from arctic_runtime.service.refreshing.model_records import FollowedTables, Heads, Record
from arctic_runtime.service.refreshing.refresh_pass import Candidate


def list_candidates(
    graph: ModelGraph,
    models: Sequence[TableName],
    records: Mapping[TableName, Record],
    tables: Mapping[TableName, FollowedTables],
    heads: Heads,
    now: float,
    lags: Mapping[TableName, float],
    is_paused: Callable[[TableName], bool] = lambda _: False,
) -> dict[TableName, Candidate]:
    """Each model of a group at a moment; `lags` are the seconds for which its rows may be old.

    A model that users paused holds back those below it, as one does that failed.

    A delayed model is refreshed earlier where a model below it, whose other tables have moved on, has waited for it as
    long as the longest lag above says: else two lags that never fall together would hold that one back for ever.
    """
    pulled = _find_pulled_models(graph, models, records, now, lags) if any(lags[model] for model in models) else set()
    return {
        model: Candidate(
            records[model].find_news(tables[model], heads, now, lags[model]),
            records[model].is_paused(now) or is_paused(model),
            model not in pulled and records[model].is_delayed(now, lags[model]),
        )
        for model in models
    }


def _find_pulled_models(
    graph: ModelGraph,
    models: Sequence[TableName],
    records: Mapping[TableName, Record],
    now: float,
    lags: Mapping[TableName, float],
) -> set[TableName]:
    """The models for which one below has waited long enough; one that fails, or lies below such a one, pulls none."""
    failing = frozenset(model for model in models if records[model].failures)
    return {
        above
        for model in models
        if (companions := graph.companions[model])
        and not failing & {model, *graph.origins[model]}
        and records[model].is_due(now, max(lags[member] for member in (*companions, model)))
        for above in companions
    }
