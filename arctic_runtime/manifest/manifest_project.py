"""The project that a follower or a service keeps fresh without dbt: its models as of the last reading of its files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.data_tests import TestResult, perform_test
from arctic_runtime.manifest.manifest_file import Node, get_materialization
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.manifest.model_files import ModelFiles
from arctic_runtime.manifest.node_model import is_tested_after_refresh
from arctic_runtime.manifest.profile_file import ManifestTarget
from arctic_runtime.manifest.query_lookup import build_lookup
from arctic_runtime.manifest.selection import select_models
from arctic_runtime.manifest.table_docs import describe_node
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.query.relations import RelationLookup
from arctic_runtime.service.cron_schedules import DataTestOutcome, Scheduled
from arctic_runtime.service.project import DataTestRuns, ProjectSource, TableDocs
from arctic_runtime.service.refreshing.refresh_task import Refresher, RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.spark.engine.session_pool import get_pool


@dataclass(frozen=True)
class _LoadedModels:
    """All that is made from one reading of the files, so that the next reading replaces it together."""

    models: ManifestModels
    followed: tuple[FollowedModel, ...]
    tested: Mapping[TableName, str]
    """Ids of the followed models whose data tests run after each refresh, by their tables."""


@dataclass
class ManifestProject:
    """Implements the project of a service or of `arctic run` without dbt, with the selected models of a manifest.

    The files are read again when they change.
    """

    files: ModelFiles
    target: ManifestTarget
    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    warn: Callable[[str], None] = lambda _: None
    """Called once with each text about what is left to dbt, and with each reason why changed files can't be used."""

    is_served: bool = False
    """True for a service: the user is also told of schedules and sources that need a service with dbt."""

    reader: CatalogReader = field(init=False)

    def __post_init__(self) -> None:
        """Reads the files; raises ConfigError if they can't be used, or if no model is selected."""
        self.reader = CatalogReader(self.target.profile)
        self._warned: set[str] = set()
        self._test_runs = DataTestRuns()
        self._load()

    @property
    def models(self) -> ManifestModels:
        return self._loaded.models

    @property
    def name(self) -> str:
        return self.models.manifest.project

    @property
    def threads(self) -> int:
        return self.target.threads

    def prepare_thread(self) -> None:
        """Does nothing: a refresh needs nothing of dbt."""

    # Models that are refreshed

    def has_changed(self) -> bool:
        """Whether the files have changed since they were read; those that are missing, as while dbt runs, have not."""
        stamp = self.files.take_stamp()
        return stamp is not None and stamp != self._stamp

    def load_models(self) -> Sequence[FollowedModel] | None:
        try:
            self._load()
        except ConfigError as error:
            self.warn(f"the project has changed, and can't be used as it is; the models before stay.\n  found: {error}")
            return None
        return self._loaded.followed

    def list_followed(self) -> Sequence[FollowedModel]:
        return self._loaded.followed

    def refresh_model(self, task: Task) -> RefreshResult:
        return Refresher(self.reader, get_pool(self.target.profile), self._list_readers)(task)

    # Models that dbt runs, and tests

    def list_scheduled(self) -> Sequence[Scheduled]:
        return ()

    def run_scheduled(self, name: str) -> str:
        raise ConfigError(f"{name} is no model with a schedule: without dbt there is none.")

    def list_tested_tables(self) -> Collection[TableName]:
        return self._loaded.tested.keys()

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        loaded, pool = self._loaded, get_pool(self.target.profile)
        name = loaded.tested.get(table)
        tests = [] if name is None else sorted(loaded.models.manifest.list_tests(name))
        outcomes = tuple(_to_outcome(loaded.models, perform_test(loaded.models, test, pool)) for test in tests)
        self._test_runs.record_run(table, outcomes, datetime.now(timezone.utc))
        return outcomes

    def describe_table(self, table: TableName) -> TableDocs:
        models = self.models
        name = models.find_node(table)
        docs = TableDocs() if name is None else describe_node(models.manifest, name)
        return self._test_runs.add_results(table, docs)

    # Tables

    def list_models(self) -> Sequence[Model]:
        return sorted((followed.model for followed in self._loaded.followed), key=lambda model: model.table)

    def list_descendants(self, tables: Collection[TableName]) -> Collection[TableName]:
        return self.models.graph.list_descendants(tables)

    def build_lookup(self) -> RelationLookup:
        return build_lookup(self.reader, self.models.graph.nodes, self.list_models())

    def list_maintained(self) -> Sequence[Maintained]:
        return [Maintained(model, self._list_readers(model.table)) for model in self.list_models()]

    def list_sources(self) -> Sequence[ProjectSource]:
        return ()

    def _list_readers(self, table: TableName) -> tuple[TableName, ...]:
        return tuple(other for other in self.models.managed_tables if other != table)

    # Reading

    def _load(self) -> None:
        self._stamp = self.files.take_stamp()
        models = ManifestModels(self.files.read_models(), self.target)
        selected = select_models(models.manifest, self.select, self.exclude)
        if not selected:
            raise ConfigError(
                "no model with keys of dbt-arctic is selected.",
                where=str(self.files.path),
                expected="models with `meta: {arctic: {primary_key: …}}`",
                fix="correct --select and --exclude; or write the key, and run `dbt compile`",
            )
        followed = tuple(models.build_followed(name) for name in selected)
        nodes = models.manifest.nodes
        tested = {models.name_table(name): name for name in selected if is_tested_after_refresh(nodes[name])}
        for schema in sorted({model.table.schema for model in followed}):
            if not self.reader.has_namespace(schema):
                self.reader.create_namespace(schema)
        self._loaded = _LoadedModels(models, followed, tested)
        for text in self._list_notes():
            if text not in self._warned:
                self._warned.add(text)
                self.warn(text)

    def _list_notes(self) -> Iterator[str]:
        """Yields a line for people about each part of the manifest that is left to dbt."""
        models = self.models
        names = [followed.name for followed in self._loaded.followed]
        for name in models.manifest.list_unmanaged_parents(names):
            kind = _name_kind(models.manifest.nodes[name])
            yield f"{models.name_table(name)} is read as it is: dbt makes this {kind}"
        for name in names:
            if _has_hooks(models.manifest.nodes[name]):
                yield f"{name}: its hooks are not run"
        if self.is_served:
            yield from models.list_unserved_parts()


def _has_hooks(node: Node) -> bool:
    return any(node["config"].get(name) for name in ("pre-hook", "pre_hook", "post-hook", "post_hook"))


def _name_kind(node: Node) -> str:
    return get_materialization(node) if node["resource_type"] == "model" else str(node["resource_type"])


def _to_outcome(models: ManifestModels, result: TestResult) -> DataTestOutcome:
    """Returns the result of a test as a service shows it; a test that can't be run is a warning."""
    name = str(models.manifest.nodes[result.unique_id]["name"])
    status = "warn" if result.status == "skipped" else result.status
    return DataTestOutcome(name, status, result.message or "")
