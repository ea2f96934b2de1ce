"""Opens a dbt project for programs that use `arctic_runtime`: to refresh it, and to ingest or serve its tables."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.ingest.connectors import with_jars
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.plan.row_conditions import list_parts
from arctic_runtime.service.refreshing.refresh_task import Task
from dbt.adapters.arctic.cli import build_parser
from dbt.adapters.arctic.commands import ingest, serve
from dbt.adapters.arctic.materialize.row_conditions import RowConditions
from dbt.adapters.arctic.project.compiled_project import build_compiled_model, load_sources
from dbt.adapters.arctic.project.counterparts import find_counterparts
from dbt.adapters.arctic.project.live_project import LiveProject
from dbt.adapters.arctic.project.loaded_project import Location
from dbt.adapters.arctic.project.project_tables import CompiledProject
from dbt.adapters.arctic.project.sources import list_ingested_models


def read_project(project_dir: Path, profiles_dir: Path | None, target: str | None) -> OpenedProject:
    """Parses a project without compiling its models; raises ConfigError if dbt can't parse it."""
    return OpenedProject(project_dir, profiles_dir, target)


class OpenedProject:
    """A project that a program has opened; it is compiled when its models are first needed."""

    def __init__(self, project_dir: Path, profiles_dir: Path | None, target: str | None) -> None:
        self._location = Location(project_dir, profiles_dir, target, is_served=True)
        parsed = load_sources(project_dir, profiles_dir, target)
        self._sources = parsed.sources
        self.profile = replace(with_jars(parsed.profile, parsed.sources), keep_alive_seconds=0.0)
        """Profile of the target, with the JARs for ingestion, so that one Spark serves all purposes; it is not kept."""

        self._followed: LiveProject | None = None

    def list_models(self, reader: CatalogReader) -> Sequence[Model]:
        project = self._follow_project()
        nodes = project.compiled_nodes
        tests = RowConditions(project.loaded.manifest)
        compiled = [
            build_compiled_model(nodes[followed.name], tests) if nodes[followed.name].compiled else followed.model
            for followed in project.list_followed()
        ]
        models = (*list_parts(compiled), *list_ingested_models(self._sources, reader))
        return sorted(models, key=lambda model: model.table)

    def refresh_model(self, model: Model) -> Refreshed:
        from dbt_common.exceptions import DbtBaseException

        project = self._follow_project()
        parts = ((part.table, known) for known in project.list_followed() for part in known.model.parts)
        followed = next((known for table, known in parts if table == model.table), None)
        if followed is None:
            raise ConfigError(
                f"{model.table} is ingested from {model.ingested_from}, and no run of a model makes it.",
                fix="`ingest` brings it up to date",
            )
        try:
            return project.refresh_model(Task(followed, PinnedSnapshots(), has_news=True, is_known=False)).refreshed
        except DbtBaseException as error:
            raise ConfigError(
                f"{model.table}: dbt could not run the model.",
                actual=str(error),
            ) from error

    def find_counterparts(self, state: str | None, target: str | None) -> Mapping[TableName, Counterpart]:
        location, own = self._location, CompiledProject(self.profile, (), graph=self._follow_project().graph)
        if target is not None:
            self._followed = None  # The project is parsed for the target, which replaces dbt's state here.
        return find_counterparts(own, location.project_dir, location.profiles_dir, state, target)

    def list_descendants(self, tables: Collection[TableName]) -> Collection[TableName]:
        return self._follow_project().list_descendants(tables)

    def run_ingestion(self, sources: Sequence[str], once: bool) -> None:
        self._followed = None  # The command parses the project, which replaces dbt's state here.
        options = ["ingest", *self._list_options(), *(["--once"] if once else []), "--", *sources]
        ingest.perform_command(build_parser().parse_args(options))

    def run_service(self, host: str | None, port: int | None, without: Sequence[str]) -> None:
        for part in without:
            if part not in serve.PARTS:
                raise ConfigError(
                    f"{part!r} is no part of the service{suggest_nearest(part, serve.PARTS)}; "
                    f"expected of {', '.join(serve.PARTS)}"
                )
        self._followed = None
        given = {"--host": host, "--port": port}
        options = [text for option, value in given.items() if value is not None for text in (option, str(value))]
        left_out = [text for part in without for text in ("--without", part)]
        serve.perform_command(build_parser().parse_args(["serve", *self._list_options(), *options, *left_out]))

    def _list_options(self) -> list[str]:
        location = self._location
        given = {
            "--project-dir": location.project_dir,
            "--profiles-dir": location.profiles_dir,
            "--target": location.target,
        }
        return [text for option, value in given.items() if value is not None for text in (option, str(value))]

    def _follow_project(self) -> LiveProject:
        """Loads and compiles the project at the first call, and sets dbt's state of the calling thread for it."""
        from dbt.flags import set_flags

        if self._followed is None:
            self._followed = LiveProject(self._location, _warn_user)
        self._followed.prepare_thread()
        set_flags(self._followed.loaded.flags)
        return self._followed


def _warn_user(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)
