"""A project that is followed: its models, how they are refreshed, and whether its files have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.refresh_task import Done, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from dbt.adapters.arctic.materialize.maintain import get_node_table, is_arctic
from dbt.adapters.arctic.project.loaded_project import LoadedProject, Location, load_project
from dbt.adapters.arctic.project.model_refresh import ProjectRefresher
from dbt.adapters.arctic.project.project_files import ProjectFiles

_TABLES = ("table", "incremental", "snapshot", "materialized_view")
"""Materializations whose tables change only when dbt runs them."""


class FollowedProject:
    """A project as it was last loaded; `warn` gets what its user should know, each text once."""

    def __init__(self, location: Location, warn: Callable[[str], None]) -> None:
        """Raises ConfigError if dbt can't use the project."""
        self._location = location
        self._warn = warn
        self._warned: set[str] = set()
        self._files: ProjectFiles | None = None
        self._use_loaded(load_project(location))

    @property
    def models(self) -> list[FollowedModel]:
        return self._models

    def refresh_model(self, task: Task) -> Done:
        return self.refresher(task)

    def build_thread_starter(self) -> Callable[[], None]:
        """Setup of a thread before dbt's code can run in it."""
        from dbt_common.context import get_invocation_context, set_invocation_context

        return partial(set_invocation_context, get_invocation_context().env)

    def has_changed(self) -> bool:
        assert self._files is not None
        return self._files.has_changed()

    def load_models(self) -> list[FollowedModel] | None:
        """The models after an edit. None, and a warning, if it left the project unusable: the old ones stay."""
        try:
            loaded = load_project(self._location)
            if loaded.profile != self.loaded.profile:
                self._warn("the target in profiles.yml has changed; end `arctic run` and start it again to use it")
                return None
            self._use_loaded(loaded)
        except ConfigError as error:
            self._warn(
                f"the project has changed, and can't be used as it is; the models before stay.\n  found: {error}"
            )
            return None
        return self._models

    def _use_loaded(self, loaded: LoadedProject) -> None:
        refresher = ProjectRefresher(loaded)
        models = refresher.list_followed()
        for schema in sorted({model.table.schema for model in models}):
            if not refresher.reader.has_namespace(schema):
                refresher.reader.create_namespace(schema)
        self.loaded, self.refresher, self._models = loaded, refresher, models
        if self._files is None:
            self._files = ProjectFiles(self._location.project_dir, _list_folders(loaded.config))
        for text in self._list_left_to_dbt():
            if text not in self._warned:
                self._warned.add(text)
                self._warn(text)

    def _list_left_to_dbt(self) -> Iterator[str]:
        """Lists parts of a dbt run that are not done here."""
        manifest = self.loaded.manifest
        if any(set(node.tags) & {"on-run-start", "on-run-end"} for node in manifest.nodes.values()):
            yield "on-run-start and on-run-end hooks are left to `dbt run`"
        for node in sorted(self._list_tables_read(), key=lambda node: str(node.unique_id)):
            yield (
                f"{get_node_table(node)} is read as it is: {node.config.materialized} models are refreshed by "
                f"`dbt run --select {node.name}`"
            )
        there = self.refresher.reader
        for view in sorted(
            {name for name in self._list_views_read() if there.describe_relation(name.schema, name.name) is None}
        ):
            yield f"the view {view} does not exist, and `dbt run --select {view.name}` creates it"

    def _list_tables_read(self) -> list[Any]:
        above = (node for node in self._walk_upstream() if node.unique_id not in self.loaded.scheduled)
        return list({node.unique_id: node for node in above if node.config.materialized in _TABLES}.values())

    def _list_views_read(self) -> Iterator[TableName]:
        return (get_node_table(node) for node in self._walk_upstream() if node.config.materialized == "view")

    def _walk_upstream(self) -> Iterator[Any]:
        """Nodes that followed models read, directly or through views, other than arctic models and sources."""
        waiting, seen = list(self.loaded.nodes.values()), set[str]()
        while waiting:
            for parent in self.loaded.walk_parents(waiting.pop()):
                is_source = str(parent.resource_type) == "source"
                if is_source or is_arctic(parent) or parent.unique_id in seen:
                    continue
                seen.add(parent.unique_id)
                yield parent
                if parent.config.materialized == "view":
                    waiting.append(parent)


def _list_folders(config: Any) -> list[str]:
    """The folders of a project whose files dbt reads."""
    paths = (config.model_paths, config.macro_paths, config.seed_paths, config.snapshot_paths, config.test_paths)
    return sorted({str(folder) for paths_of_kind in paths for folder in paths_of_kind})
