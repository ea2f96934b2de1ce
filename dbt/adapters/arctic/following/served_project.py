"""A project that a service keeps fresh: its models, and all tables that operations and upkeep take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.service.readings import FollowedModel
from arctic_runtime.service.schedules import DataTestOutcome, Scheduled
from arctic_runtime.service.task import RefreshModel
from dbt.adapters.arctic.following.dbt_work import DbtWork
from dbt.adapters.arctic.following.followed_project import FollowedProject
from dbt.adapters.arctic.following.loaded_project import Location
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.sources import ingest_sources, ingested_models, landing_tables


class ServedProject:
    """The `ServedProject` of a service over a dbt project; `warn` gets what its user should know."""

    def __init__(self, location: Location, warn: Callable[[str], None]) -> None:
        """Raises ConfigError where dbt can't use the project."""
        self.followed_project = FollowedProject(location, warn)
        self.changed = self.followed_project.changed
        self.load = self.followed_project.load
        self.prepare_thread = self.followed_project.thread_starter()
        self.refresh: RefreshModel = self.followed_project.refresh
        self._by_dbt = DbtWork(self.followed_project.loaded)

    @property
    def name(self) -> str:
        return str(self.followed_project.loaded.config.project_name)

    @property
    def threads(self) -> int:
        return self.followed_project.loaded.threads

    @property
    def sources(self) -> tuple[IngestSource, ...]:
        """The sources that are ingested."""
        return ingest_sources(self.followed_project.loaded.manifest)

    def followed(self) -> Sequence[FollowedModel]:
        return self.followed_project.models

    def models(self) -> Sequence[Model]:
        reader = self.followed_project.refresher.reader
        manifest = self.followed_project.loaded.manifest
        followed = [of.model for of in self.followed()]
        found = [*followed, *ingested_models(self.sources, reader), *landing_tables(manifest)]
        return sorted(found, key=lambda model: model.table)

    def maintained(self) -> Sequence[Maintained]:
        manifest, models = self.followed_project.loaded.manifest, self.models()
        readers = Readers(manifest.nodes.values(), manifest.sources.values())
        by_table = {model.table: model for model in models}

        def of(model: Model) -> Maintained:
            names = readers.of(model.table)
            known = (by_table[name] for name in names if name in by_table)
            return Maintained(model, names, tuple(known) if model.is_landing else ())

        return [of(model) for model in models]

    def scheduled(self) -> Sequence[Scheduled]:
        return self._dbt_work().scheduled

    def run_scheduled(self, name: str) -> str:
        return self._dbt_work().run(name)

    def tested(self) -> Collection[TableName]:
        return self._dbt_work().tested()

    def test(self, table: TableName) -> Sequence[DataTestOutcome]:
        return self._dbt_work().test(table)

    def _dbt_work(self) -> DbtWork:
        """That of the project as it was last loaded."""
        loaded = self.followed_project.loaded
        if self._by_dbt.project is not loaded:
            self._by_dbt = DbtWork(loaded)
        return self._by_dbt

    def expected(self) -> Collection[TableName]:
        return [table.table for source in self.sources for table in source.tables]
