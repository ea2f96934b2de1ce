"""Decides, in a pass over models that read one another, which need a refresh, and may start given their upstreams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.model_graph import NOTHING, ModelGraph, Tables
from arctic_runtime.service.refreshing.model_records import FollowedTables, Heads, News, Record

Ended = Literal["changed", "unchanged", "failed", "conflict"]
"""Result of a refresh; a conflict is a commit race that another writer won."""

_Fate = Literal["running", "changed", "done", "waiting", "blocked"]


@dataclass(frozen=True)
class RefreshCandidate:
    """A model at the start of a pass; `news` says whether its upstreams have changed.

    `is_paused` is whether a failure or a user paused it, and `is_delayed` whether its target lag lets it wait.
    """

    news: News = "none"
    is_paused: bool = False
    is_delayed: bool = False


@dataclass(frozen=True)
class Start:
    """A model to refresh at once; without `has_news`, only its own tables changed, mostly by its own last refresh."""

    model: TableName
    has_news: bool


class Pass:
    """The progress of one pass over a group of models.

    Call `take_ready` for models to start, and `end_model` for each of them, until `is_over`. A model starts when all
    models that it reads are done. All models that a pass refreshes show the same versions of the sources. So a model
    has to wait in two cases:

    - A model above it failed, or lost a commit race. The model waits until a later pass refreshes the one above.
    - It reads rows of one source table through several tables, one of which is a delayed model with older rows of that
      source.
    """

    def __init__(
        self, graph: ModelGraph, models: Sequence[TableName], candidates: Mapping[TableName, RefreshCandidate]
    ) -> None:
        """Begins a pass over `models`, a group of the graph in its order; starts none of them.

        `candidates` has for each model whether its upstreams have changed, and whether it is paused or may wait.
        """
        self._graph = graph
        self._candidates = candidates
        self._undecided = list(models)
        self._fates: dict[TableName, _Fate] = {}
        self._lagging: dict[TableName, Tables] = {}
        self.held: dict[TableName, TableName] = {}
        """Maps a model to the upstream model that failed or lost a commit race, and so prevents the model's refresh."""

    @property
    def is_over(self) -> bool:
        return not self._undecided and "running" not in self._fates.values()

    def take_ready(self) -> list[Start]:
        """Returns the models that can start at this moment; each model is returned only once in a pass."""
        started = []
        for model in list(self._undecided):
            if not self._is_decidable(model):
                continue
            self._undecided.remove(model)
            fate, has_news = self._decide_fate(model)
            self._record_fate(model, fate)
            if fate == "running":
                started.append(Start(model, has_news))
        return started

    def end_model(self, model: TableName, ended: Ended) -> None:
        """Records the result of a model that `take_ready` returned."""
        fates: Mapping[Ended, _Fate] = {
            "changed": "changed",
            "unchanged": "done",
            "failed": "blocked",
            "conflict": "blocked",
        }
        self._record_fate(model, fates[ended])

    def is_complete(self, model: TableName) -> bool:
        """Whether a refreshed model shows all its upstream tables in the versions of this pass."""
        return not self._lagging[model]

    def cut_short(self) -> None:
        """Prevents further models from starting."""
        self._undecided.clear()

    def _is_decidable(self, model: TableName) -> bool:
        return all(self._fates.get(above, "running") != "running" for above in self._graph.upstreams[model])

    def _decide_fate(self, model: TableName) -> tuple[_Fate, bool]:
        candidate, upstreams = self._candidates[model], self._graph.upstreams[model]
        blocking = min((above for above in upstreams if self._fates[above] == "blocked"), default=None)
        if blocking is not None:
            self.held[model] = self.held.get(blocking, blocking)
            return "blocked", False
        has_news = candidate.news == "reads" or any(self._fates[above] == "changed" for above in upstreams)
        if not has_news and candidate.news == "none":
            return "done", False
        if candidate.is_paused:
            return "blocked", has_news
        if has_news and (candidate.is_delayed or self._is_mixing_versions(model)):
            return "waiting", has_news
        return "running", has_news

    def _is_mixing_versions(self, model: TableName) -> bool:
        """Whether a refresh of `model` would read rows of one upstream table in two different versions."""
        return bool(self._graph.shared_origins[model] & self._list_lagging_origins(model))

    def _list_lagging_origins(self, model: TableName) -> Tables:
        return NOTHING.union(*(self._lagging[above] for above in self._graph.upstreams[model]))

    def _record_fate(self, model: TableName, fate: _Fate) -> None:
        """Records the progress of a model, and the upstream tables whose rows in it are older than this pass."""
        self._fates[model] = fate
        is_behind = fate in ("waiting", "blocked")
        self._lagging[model] = self._graph.origins[model] if is_behind else self._list_lagging_origins(model)


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
