"""A dbt project that a service keeps fresh: its models and tables as of its last load; edits make it load again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timezone
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.connectors import describe_connection
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.manifest.project_graph import ProjectGraph
from arctic_runtime.manifest.query_lookup import build_lookup
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.plan.row_conditions import list_parts
from arctic_runtime.query.relations import RelationLookup
from arctic_runtime.service.cron_schedules import DataTestOutcome, Scheduled
from arctic_runtime.service.project import DataTestRuns, ProjectSource, TableDocs
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.spark.engine.thread_imports import preload_modules
from dbt.adapters.arctic.connections.manager import ROOMS
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.project.dbt_work import DbtWork, list_parts_run_by_dbt
from dbt.adapters.arctic.project.environments import list_manifest_nodes
from dbt.adapters.arctic.project.loaded_project import LoadedProject, Location, load_project
from dbt.adapters.arctic.project.model_refresh import DbtRefresher
from dbt.adapters.arctic.project.sources import ingest_sources, list_ingested_models, list_landing_tables
from dbt.adapters.arctic.project.table_docs import describe_table
from dbt.adapters.arctic.publication.tested_refresh import TestedRefreshes

Stamp = frozenset[tuple[str, int, int]]


class ProjectFiles:
    """The files that dbt reads from a project; of installed packages only the file that lists them."""

    def __init__(self, project_dir: Path, folders: Sequence[str]) -> None:
        """Records the current files; `folders` are the project's configured folders of models, macros and so on."""
        self._project_dir = project_dir
        self._folders = folders
        self._seen = self._take_stamp()

    def has_changed(self) -> bool:
        """Whether files have changed since the last call, or since this object was created.

        Several edits since then count once.
        """
        before, self._seen = self._seen, self._take_stamp()
        return before != self._seen

    def _take_stamp(self) -> Stamp:
        return frozenset(self._list_stats())

    def _list_stats(self) -> Iterator[tuple[str, int, int]]:
        yield from _list_stats(self._project_dir, is_deep=False)
        for folder in self._folders:
            yield from _list_stats(self._project_dir / folder, is_deep=True)


_OF_PROJECT = (".yml", ".yaml")


def _list_stats(folder: Path, is_deep: bool) -> Iterator[tuple[str, int, int]]:
    """Yields path, modification time (ns) and size of the YAML files in `folder`.

    If `is_deep`, yields these of all files below `folder` except those in hidden folders.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir():
                if is_deep and not entry.name.startswith("."):
                    yield from _list_stats(Path(entry.path), is_deep)
            elif is_deep or entry.name.endswith(_OF_PROJECT):
                stat = entry.stat()
                yield entry.path, stat.st_mtime_ns, stat.st_size
        except FileNotFoundError:
            continue


class _LoadedParts:
    """All objects that are made from one load of the project, so that the next load replaces all of them together."""

    def __init__(self, loaded: LoadedProject) -> None:
        self.loaded = loaded
        self.refresher = DbtRefresher(loaded)
        self.models = self.refresher.list_followed()
        loaded.prepare_build()
        for schema in sorted({model.table.schema for model in self.models}):
            if not self.refresher.reader.has_namespace(schema):
                self.refresher.reader.create_namespace(schema)

    @cached_property
    def graph(self) -> ProjectGraph:
        return ProjectGraph(list_manifest_nodes(self.loaded.manifest))

    @cached_property
    def dbt_work(self) -> DbtWork:
        return DbtWork(self.loaded)


class LiveProject:
    """Implements the `Project` of a service or of `arctic run` with dbt.

    `warn` is called once with each text for the user. If an edit makes the project unusable, the models of the last
    load are used further.
    """

    def __init__(self, location: Location, warn: Callable[[str], None]) -> None:
        """Loads the project; raises ConfigError if dbt can't use it."""
        from dbt_common.context import get_invocation_context

        self._location = location
        self._warn = warn
        self._warned: set[str] = set()
        self._test_runs = DataTestRuns()
        self._use_parts(_LoadedParts(load_project(location)))
        preload_modules(self.loaded.profile, ROOMS)
        self._scratch = tempfile.TemporaryDirectory(prefix="dbt-arctic-")
        self._tested_refreshes = self._build_tested_refreshes()
        self._files = ProjectFiles(location.project_dir, _list_folders(self.loaded.config))
        self._environment = get_invocation_context().env

    def _build_tested_refreshes(self) -> TestedRefreshes | None:
        """Builds what publishes refreshes after their tests; None without `publish: build`, and for a whole build."""
        if not self.loaded.adapter.is_published_whole or self._location.is_built:
            return None
        return TestedRefreshes(self.loaded.profile, Path(self._scratch.name), lambda: self.loaded.adapter.branch_scope)

    @property
    def loaded(self) -> LoadedProject:
        """The project as of its last load."""
        return self._parts.loaded

    @property
    def reader(self) -> CatalogReader:
        return self._parts.refresher.reader

    @property
    def compiled_nodes(self) -> dict[str, Any]:
        """The nodes of the arctic models after their last compilation, by unique id."""
        return self._parts.refresher.nodes

    @property
    def name(self) -> str:
        return str(self.loaded.config.project_name)

    @property
    def threads(self) -> int:
        return self.loaded.threads

    @property
    def sources(self) -> tuple[IngestSource, ...]:
        """The project's ingested sources."""
        return ingest_sources(self.loaded.manifest)

    def prepare_thread(self) -> None:
        """Prepares the calling thread for running dbt's code."""
        from dbt_common.context import set_invocation_context

        set_invocation_context(self._environment)

    # Models that are refreshed

    def has_changed(self) -> bool:
        return self._files.has_changed()

    def load_models(self) -> Sequence[FollowedModel] | None:
        """Loads the project again after an edit, and returns its models.

        If the project is unusable, warns the user, keeps the models of the last load, and returns None.
        """
        try:
            loaded = load_project(self._location)
            if loaded.profile != self.loaded.profile:
                self._warn(
                    "the target in profiles.yml, or the JARs that the sources need, have changed; end this process and "
                    "start it again to use them"
                )
                return None
            self._use_parts(_LoadedParts(loaded))
        except ConfigError as error:
            self._warn(
                f"the project has changed, and can't be used as it is; the models before stay.\n  found: {error}"
            )
            return None
        return self._parts.models

    def list_followed(self) -> Sequence[FollowedModel]:
        return self._parts.models

    def refresh_model(self, task: Task) -> RefreshResult:
        parts = self._parts
        if self._tested_refreshes is None or task.followed.model.table not in parts.dbt_work.list_tested_tables():
            return parts.refresher(task)
        return self._tested_refreshes.refresh_model(
            task, parts.refresher, partial(self._run_tests, parts), parts.refresher.readers
        )

    def _use_parts(self, parts: _LoadedParts) -> None:
        self._parts = parts
        for text in list_parts_run_by_dbt(parts.loaded, parts.refresher.reader):
            if text not in self._warned:
                self._warned.add(text)
                self._warn(text)

    # Models that dbt runs, and tests

    def list_scheduled(self) -> Sequence[Scheduled]:
        return self._parts.dbt_work.scheduled

    def run_scheduled(self, name: str) -> str:
        return self._parts.dbt_work.run_model(name)

    def list_tested_tables(self) -> Collection[TableName]:
        if self._tested_refreshes is not None:
            return ()  # Their tests run inside their refreshes.
        return self._parts.dbt_work.list_tested_tables()

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        return self._run_tests(self._parts, table)

    def _run_tests(self, parts: _LoadedParts, table: TableName) -> Sequence[DataTestOutcome]:
        outcomes = parts.dbt_work.test_table(table)
        self._test_runs.record_run(table, outcomes, datetime.now(timezone.utc))
        return outcomes

    def describe_table(self, table: TableName) -> TableDocs:
        docs = describe_table(self.loaded.manifest, self._location.project_dir, table)
        return self._test_runs.add_results(table, docs)

    # Tables

    def list_models(self) -> Sequence[Model]:
        followed = list_parts(followed_model.model for followed_model in self.list_followed())
        landing = list_landing_tables(self.loaded.manifest)
        all_models = [*followed, *list_ingested_models(self.sources, self.reader), *landing]
        return sorted(all_models, key=lambda model: model.table)

    @property
    def graph(self) -> ProjectGraph:
        """All nodes of the project that have a table."""
        return self._parts.graph

    def list_descendants(self, tables: Collection[TableName]) -> Collection[TableName]:
        return self.graph.list_descendants(tables)

    def build_lookup(self) -> RelationLookup:
        parts = self._parts
        models = list_parts(followed_model.model for followed_model in parts.models)
        return build_lookup(parts.refresher.reader, parts.graph.nodes, models)

    def list_maintained(self) -> Sequence[Maintained]:
        manifest, models = self.loaded.manifest, self.list_models()
        readers = Readers(manifest.nodes.values(), manifest.sources.values())
        by_table = {model.table: model for model in models}

        def build_maintained(model: Model) -> Maintained:
            names = readers.list_readers(model.table)
            known = (by_table[name] for name in names if name in by_table)
            return Maintained(model, names, tuple(known) if model.is_landing else ())

        return [build_maintained(model) for model in models]

    def list_sources(self) -> Sequence[ProjectSource]:
        return [
            ProjectSource(
                source.name,
                describe_connection(source),
                tuple(table.table for table in source.tables),
                {table.table: table.source_name for table in source.tables},
                source.dead_letter_table,
            )
            for source in self.sources
        ]


def _list_folders(config: Any) -> list[str]:
    """Returns the folders of a project from which dbt reads files."""
    paths = (config.model_paths, config.macro_paths, config.seed_paths, config.snapshot_paths, config.test_paths)
    return sorted({str(folder) for paths_of_kind in paths for folder in paths_of_kind})
