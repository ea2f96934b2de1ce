"""Sources that move, models as sets of the source versions that their rows show, and passes over them. No Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.model_graph import ModelGraph
from arctic_runtime.service.refreshing.model_records import Record
from arctic_runtime.service.refreshing.refresh_pass import Ended, ModelStatus, Pass, Start, list_candidates
from arctic_runtime.service.refreshing.source_relations import ModelReads, list_relations
from arctic_runtime.thresholds import ServiceThresholds

THRESHOLDS = ServiceThresholds()
Shown = Mapping[TableName, frozenset[int]]
"""Source → the versions of it that rows show; more than one is a mix."""


def t(name: str) -> TableName:
    return TableName("lake", "shop", name)


@dataclass
class World:
    """Tables by their heads. A model's refresh reads the pass's versions of sources, and models as they are."""

    reads: Mapping[TableName, frozenset[TableName]]
    lags: Mapping[TableName, float]
    now: float = 0.0
    heads: dict[TableName, int] = field(default_factory=lambda: defaultdict(int))
    shows: dict[TableName, Shown] = field(default_factory=dict)
    fails: set[TableName] = field(default_factory=set)
    loses: set[TableName] = field(default_factory=set)
    started: list[TableName] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = ModelGraph(self.reads)
        self.records = {model: Record() for model in self.reads}
        self.heads.update(dict.fromkeys(self.sources, 0))
        self.tables = {
            model: ModelReads(tables, frozenset()).to_followed_tables(model)
            for model, tables in self.graph.reads.items()
        }

    @property
    def sources(self) -> list[TableName]:
        return sorted(frozenset().union(*self.graph.reads.values()) - self.reads.keys())

    def move(self, source: TableName) -> None:
        self.heads[source] += 1

    def texts(self) -> dict[TableName, str]:
        return {of: str(head) for of, head in self.heads.items()}

    def begin(self, group: Sequence[TableName]) -> tuple[Pass, dict[TableName, str]]:
        heads = self.texts()
        models = {model: ModelStatus(self.records[model], self.tables[model], self.lags[model]) for model in group}
        return Pass(self.graph, group, list_candidates(self.graph, models, heads, self.now)), heads

    def run_pass(
        self, pick: Callable[[int], int] = lambda count: 0, between: Callable[[], None] = lambda: None
    ) -> None:
        """A pass over each group; `pick` chooses whose refresh ends next, `between` is what happens meanwhile."""
        for group in self.graph.list_groups():
            progress, heads = self.begin(group)
            running = progress.take_ready()
            while running:
                between()
                start = running.pop(pick(len(running)))
                self._refresh(progress, start, heads)
                running += progress.take_ready()
            assert progress.is_over

    def _refresh(self, progress: Pass, start: Start, heads: Mapping[TableName, str]) -> None:
        model = start.model
        if start.has_news:
            self.started.append(model)
        above = {relation for of in self.graph.upstreams[model] for relation in list_relations(of)}
        seen = {**heads, **{relation: head for relation, head in self.texts().items() if relation in above}}
        ended = self._end(model, start, heads)
        progress.end_model(model, ended)
        record = self.records[model]
        if ended == "failed":
            self.records[model] = record.record_failure(self.now, THRESHOLDS)
        elif ended != "conflict" and start.has_news:
            self.records[model] = record.record_success(seen, self.now, False, progress.is_complete(model))
        elif ended != "conflict":
            self.records[model] = record.confirm_fresh(seen, False)

    def _end(self, model: TableName, start: Start, heads: Mapping[TableName, str]) -> Ended:
        if model in self.fails:
            return "failed"
        if model in self.loses:
            return "conflict"
        shown = self.read(model, heads)
        if not start.has_news:
            assert shown == self.shows[model], "news were missed"
        if shown == self.shows.get(model):
            return "unchanged"
        self.shows[model] = shown
        self.heads[model.changes] += 1
        return "changed"

    def read(self, model: TableName, heads: Mapping[TableName, str]) -> Shown:
        """The versions of sources that a refresh shows with these heads of theirs."""
        found: dict[TableName, set[int]] = defaultdict(set)
        for table in self.graph.reads[model]:
            if table not in self.reads:
                found[table].add(int(heads.get(table, "0")))
            for origin, versions in self.shows.get(table, {}).items():
                found[origin] |= versions
        return {origin: frozenset(versions) for origin, versions in found.items()}

    def mixed(self) -> list[TableName]:
        """The models whose rows show two states of one source."""
        return [model for model, shown in self.shows.items() if any(len(versions) > 1 for versions in shown.values())]

    def behind(self) -> list[TableName]:
        """The models that do not show the sources as they are."""
        return [
            model
            for model in self.graph.order
            if any(
                self.shows.get(model, {}).get(source) != frozenset({self.heads[source]})
                for source in self.graph.origins[model] - self.reads.keys()
            )
        ]
