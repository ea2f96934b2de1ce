"""A project that a service keeps fresh: its models, and all tables that operations and upkeep take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.service.refreshing.refresh_task import RefreshModel
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.schedules.cron_schedules import DataTestOutcome, Scheduled
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.project.dbt_work import DbtWork
from dbt.adapters.arctic.project.followed_project import FollowedProject
from dbt.adapters.arctic.project.loaded_project import Location
from dbt.adapters.arctic.project.sources import ingest_sources, list_ingested_models, list_landing_tables


class ServedProject:
    """The `ServedProject` of a service over a dbt project; `warn` gets what its user should know."""

    def __init__(self, location: Location, warn: Callable[[str], None]) -> None:
        """Raises ConfigError if dbt can't use the project."""
        self.followed_project = FollowedProject(location, warn)
        self.has_changed = self.followed_project.has_changed
        self.load_models = self.followed_project.load_models
        self.prepare_thread = self.followed_project.build_thread_starter()
        self.refresh_model: RefreshModel = self.followed_project.refresh_model
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

    def list_followed(self) -> Sequence[FollowedModel]:
        return self.followed_project.models

    def list_models(self) -> Sequence[Model]:
        reader = self.followed_project.refresher.reader
        manifest = self.followed_project.loaded.manifest
        followed = [followed_model.model for followed_model in self.list_followed()]
        all_models = [*followed, *list_ingested_models(self.sources, reader), *list_landing_tables(manifest)]
        return sorted(all_models, key=lambda model: model.table)

    def list_maintained(self) -> Sequence[Maintained]:
        manifest, models = self.followed_project.loaded.manifest, self.list_models()
        readers = Readers(manifest.nodes.values(), manifest.sources.values())
        by_table = {model.table: model for model in models}

        def build_maintained(model: Model) -> Maintained:
            names = readers.list_readers(model.table)
            known = (by_table[name] for name in names if name in by_table)
            return Maintained(model, names, tuple(known) if model.is_landing else ())

        return [build_maintained(model) for model in models]

    def list_scheduled(self) -> Sequence[Scheduled]:
        return self._get_dbt_work().scheduled

    def run_scheduled(self, name: str) -> str:
        return self._get_dbt_work().run_model(name)

    def list_tested_tables(self) -> Collection[TableName]:
        return self._get_dbt_work().list_tested_tables()

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        return self._get_dbt_work().test_table(table)

    def _get_dbt_work(self) -> DbtWork:
        """That of the project as it was last loaded."""
        loaded = self.followed_project.loaded
        if self._by_dbt.project is not loaded:
            self._by_dbt = DbtWork(loaded)
        return self._by_dbt

    def list_expected_tables(self) -> Collection[TableName]:
        return [table.table for source in self.sources for table in source.tables]
