"""The table from which rows are forgotten, and the tables that are computed from it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from arctic_runtime.catalog.observation.clones import observe_clone_tags
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.reads import find_reads
from arctic_runtime.model.clone import list_tagged_tables, shares_files
from arctic_runtime.model.names import TableName, format_changes_view, list_changes_read
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.forgetting import list_downstream_tables
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.forget.erase_events import ForgottenRows, can_follow_deletion, list_skips
from arctic_runtime.spark.maintenance.cloning import release_tags
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.table_session import TableSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


T = TypeVar("T")


class DownstreamTables:
    """The table `root`, from which rows are forgotten, and all tables that are computed from it.

    `keyed` are the tables with a primary key, which may have rows to forget, the root first. `appended` are those
    without a primary key: none of their rows can be forgotten, but they are refreshed as well. `below` has the tables
    of both lists without the root. In all lists a table comes after the tables that it reads.
    """

    def __init__(
        self,
        root: Model,
        models: Sequence[Model],
        reader: CatalogReader,
        spark: Callable[[], SparkSession],
        now: datetime.datetime,
    ) -> None:
        self.root = root
        self.reader = reader
        self.spark = spark
        self._now = now
        self._round = self._pins = PinnedSnapshots()
        known = {model.table: model for model in models if not model.is_landing}
        self._known: Mapping[TableName, Model] = {**known, root.table: root}
        self._reads = {table: self._list_tables_read(model) for table, model in self._known.items()}
        involved = [self._known[table] for table in list_downstream_tables(root.table, self._reads)]
        self.keyed = [model for model in involved if self._is_built(model)]
        self.appended = [
            model for model in involved if model.is_appended and self.observe_state(model).appended is not None
        ]
        self.below = [model for model in involved[1:] if model in self.keyed or model in self.appended]

    @property
    def origins(self) -> list[str]:
        """Names of the tables from which the root's query reads."""
        return sorted(map(str, self._reads[self.root.table]))

    def open_session(self, table: TableName) -> TableSession:
        return TableSession(self._known[table], self.reader, self.spark, self._now)

    def observe_state(self, model: Model) -> TableState:
        return self.open_session(model.table).observe_state()

    def observe_upstreams(self, model: Model) -> Upstreams:
        return RefreshPlanner(model, self.reader).observe_upstreams()

    def begin_round(self) -> None:
        """Lets the refreshes that follow read the newest versions of all sources, and all of them the same ones."""
        self._round = self._pins = PinnedSnapshots()

    def pin_versions_of_round(self, model: Model, purged: Collection[TableName]) -> None:
        """Pins the next refresh, that of `model`, to the versions that the refreshes of this round have read.

        The pinned states are observed again, since files of their tables were rewritten. If `model` reads only one
        table and that table is in `purged`, its version after the purge is pinned for `model`, but not for the other
        models of the round: these read several tables, and would mix rows of different times.
        """
        self._pins = self._round = self._round.observe_again(())
        reads = self._reads[model.table]
        if len(reads) == 1 and reads <= set(purged):
            self._pins = self._round.observe_again(reads)
            self._round.invalidate_table(model.table)

    def open_refresh(self, model: Model, skipped: Mapping[TableName, ForgottenRows] | None = None) -> Refresh:
        """Returns a run of `model` that does not read the `skipped` rows of its upstreams; None skips nothing."""
        return Refresh.from_model(model, self.reader, self.spark, narrowed=list_skips(skipped or {}), pins=self._pins)

    def reads_rows_of(self, model: Model, table: TableName) -> bool:
        return table in self._reads[model.table]

    def is_computed_again(self, model: Model) -> bool:
        """Whether the rows to forget of a model are recomputed from the remaining events of their keys.

        Otherwise a refresh of the model deletes them, as it follows the deletes of the upstream; it would leave frozen
        rows as they are.
        """
        is_of_events = model.config.input == "changes" and model in self.keyed
        is_kept = model.config.frozen_where is not None
        return is_of_events and (is_kept or not can_follow_deletion(self.open_refresh(model)))

    def list_notes(self) -> Iterator[str]:
        """Yields notes for the user about data of forgotten rows that may remain, since it is not searched for.

        This concerns tables that the root reads, and tables that a query of change events joins.
        """
        for origin in self.origins:
            yield f"{origin}, which {self.root.table} reads, is not looked at: forget the rows there as well"
        involved = {model.table for model in self.keyed}
        for model in self.keyed[1:]:
            alongside = _list_lookup_tables(model) & involved if model.config.input == "changes" else ()
            for table in sorted(alongside):
                yield (
                    f"{model.table} reads {table} beside its changes(…); values that it took from there stay: run it "
                    "with --full-refresh, then forget again"
                )

    def _list_tables_read(self, model: Model) -> frozenset[TableName]:
        if model.ingested_from is not None:
            return frozenset()
        if model.config.input == "changes":
            return frozenset(list_changes_read(model.sql)) | _list_lookup_tables(model)
        states = self.observe_upstreams(model).states
        return frozenset(state.name for state in states.values() if state)

    def _is_built(self, model: Model) -> bool:
        state = self.observe_state(model)
        return model.table == self.root.table or (state.changes is not None and state.base is not None)


def _list_lookup_tables(model: Model) -> frozenset[TableName]:
    """Returns the tables that a query of change events joins with their current rows.

    These are all tables that it reads, except the model's own table and those whose changes it reads by `changes(…)`.
    """
    catalog, schema = model.table.catalog, model.table.schema
    events = {TableName(catalog, schema, format_changes_view(source)) for source in list_changes_read(model.sql)}
    return frozenset(find_reads(model.sql, catalog, schema).tables) - events - {model.table}


def select_sources_of_events(model: Model, tables: Mapping[TableName, T]) -> dict[TableName, T]:
    """Returns the entries of `tables` whose table the query of `model` reads by `changes(…)`."""
    return {table: tables[table] for table in list_changes_read(model.sql) if table in tables}


def check_no_clone(tables: DownstreamTables) -> None:
    """Raises ConfigError if one of the tables is a clone, since its files may belong to another table too."""
    for model in [*tables.keyed, *tables.appended]:
        log = tables.observe_state(model).log
        if log is not None and shares_files(log.properties):
            raise ConfigError(
                f"{model.table} is a clone, or has `gc.enabled: false`: its rows may be in files of another table too; "
                "nothing was done.",
                fix=f"forget the rows in its origin, then make the clone anew with `dbt clone --full-refresh -s "
                f"{model.table.name}`",
            )


def drop_stale_tags(tables: DownstreamTables) -> None:
    """Drops tags for clones that do not exist; a clone that is being made at the moment then fails."""
    for model in [*tables.keyed, *tables.appended]:
        for seen in observe_clone_tags(tables.reader, list_tagged_tables(model.table)):
            if seen.clone is None:
                release_tags(tables.open_session(model.table), seen.tags)
