"""The models that a follower keeps up to date: their order, and the current versions of their upstream tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

from arctic_runtime.catalog.heads import SharedHeads, observe_heads
from arctic_runtime.catalog.observation.tables import observe_readable, observe_source
from arctic_runtime.catalog.observation.views import read_view_sql
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.model_graph import NOTHING, ModelGraph
from arctic_runtime.service.refreshing.model_records import FollowedTables, Heads
from arctic_runtime.service.refreshing.source_relations import FollowedModel, Readings, list_relations


class FollowedModels:
    """Models that a follower keeps up to date, by table, and in groups of models that read one another.

    The groups follow from the tables that models are known to read so far; when views are resolved, further tables are
    added.
    """

    def __init__(self, models: Sequence[FollowedModel], reader: CatalogReader, heads: SharedHeads) -> None:
        """Orders and groups `models` by their queries; raises ConfigError if they read each other in a circle."""
        self.by_table: Mapping[TableName, FollowedModel] = {model.table: model for model in models}
        self._reader = reader
        self._shared_heads = heads
        self._readings = Readings(models, partial(read_view_sql, reader))
        self.arrange_models()

    def arrange_models(self) -> None:
        """Sets the order and groups of the models by the tables that they read; raises ConfigError for a circle."""
        by_model = self._readings.by_model
        self.graph = ModelGraph({model: reading.tables for model, reading in by_model.items()})
        self.groups: Sequence[tuple[TableName, ...]] = self.graph.list_groups()
        self.tables: Mapping[TableName, FollowedTables] = {
            model: reading.to_followed_tables(model) for model, reading in by_model.items()
        }
        self._relations = self._readings.list_all_relations()
        self.is_arranged = True
        """Whether the order and the groups include the tables behind views that were resolved last."""

    def observe_heads(self) -> Heads:
        """Observes the current metadata file of every relation that a model depends on, directly or through views."""
        observed = self._shared_heads.observe_now(self._relations)
        while self._readings.resolve_views(observed.heads, observed.views):
            self.is_arranged = False
            self._relations = self._readings.list_all_relations()
            observed = self._shared_heads.observe_now(self._relations)
        return observed.heads

    def select_heads_read(self, model: TableName, heads: Heads) -> Heads:
        """Returns the metadata file of each relation that a refresh of `model` reads.

        The files of upstream models are observed at this moment, as the pass may have refreshed them. The files of
        sources are taken from `heads`, which were observed at the start of the pass.
        """
        tables = self.tables[model]
        above = {relation for upstream in self.graph.upstreams[model] for relation in list_relations(upstream)}
        now = observe_heads(self._reader, above).heads if above else {}
        read = {relation: (now if relation in above else heads).get(relation) for relation in tables.reads}
        own = {relation: heads.get(relation) for relation in tables.own}
        return {relation: head for relation, head in {**read, **own}.items() if head is not None}

    def pin_sources(self, moved: Collection[TableName], pins: PinnedSnapshots) -> None:
        """Adds to `pins` the versions of all sources that the models of a pass may read, so that all read the same.

        `moved` are the models whose upstreams have changed; models below them are included.
        """
        readers = {*moved, *self.graph.list_downstream(moved)}
        of_events = {model for model in readers if self.by_table[model].model.config.input == "changes"}
        of_rows = NOTHING.union(*(self.graph.reads[model] for model in readers - of_events))
        for source in NOTHING.union(*(self.graph.reads[model] for model in readers)) - self.by_table.keys():
            observe = observe_readable if source in of_rows else observe_source
            with suppress(ArcticError):  # Raised again, as the failure of each model that reads it.
                pins.get_first(source, partial(observe, self._reader, source))
