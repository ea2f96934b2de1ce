"""Opens a dbt project from Python: its tables, refreshes as by `dbt run`, ingestion and the service.

The runtime does not depend on dbt: the module of the dbt adapter is imported by its name when a project is opened.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, cast

from arctic_runtime.api.table import Connection, Table
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self

PROJECTS = "dbt.adapters.arctic.project.opened_project"
"""The module whose `read_project(project_dir, profiles_dir, target)` returns a DbtProject."""


class DbtProject(Protocol):
    """The parts of a dbt project that this module uses; all methods raise ConfigError if dbt can't use the project."""

    @property
    def profile(self) -> Profile:
        """The catalog and the Spark of the project's dbt target."""

    def list_models(self, reader: CatalogReader) -> Sequence[Model]:
        """Returns the project's compiled arctic models and its ingested tables that exist, sorted by name."""

    def refresh_model(self, model: Model) -> Refreshed:
        """Refreshes a model as `dbt run` does; raises ConfigError for an ingested table, which has no query."""

    def find_counterparts(self, state: str | None, target: str | None) -> Mapping[TableName, Counterpart]:
        """Maps the project's tables to those of the same nodes in another environment, as `FindCounterparts` says."""

    def list_descendants(self, tables: Collection[TableName]) -> Collection[TableName]:
        """Returns the tables that are computed from any of `tables`, also through others."""

    def run_ingestion(self, sources: Sequence[str], once: bool) -> None:
        """Ingests change data as `arctic ingest` does; the parameters are those of `Project.ingest`."""

    def run_service(self, host: str | None, port: int | None, without: Sequence[str]) -> None:
        """Runs the service as `arctic serve` does; the parameters are those of `Project.serve`."""


def open_project(
    project_dir: str | os.PathLike[str] = ".",
    target: str | None = None,
    *,
    profiles_dir: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
) -> Project:
    """Opens the dbt project in the folder `project_dir`, which has dbt_project.yml.

    `target` is a target of the dbt profile, None the profile's default. dbt looks for profiles.yml in its usual places,
    or in the folder `profiles_dir` if given. `spark` is a session that the program has already, as for
    `open_warehouse`. Models are compiled when a table is first requested. Raises ConfigError if dbt is not installed or
    can't use the project.
    """
    try:
        module = import_module(PROJECTS)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("dbt", "dbt_common"):
            raise
        raise ConfigError(
            "A dbt project needs dbt.",
            actual=f"no module {error.name}",
            fix="pip install dbt-arctic; without dbt, `open_warehouse` defines tables",
        ) from error
    folder = Path(project_dir).expanduser()
    if not (folder / "dbt_project.yml").is_file():
        raise ConfigError(
            f"{folder.absolute()} is not a dbt project.",
            expected="a folder with dbt_project.yml",
            fix="name the project's folder",
        )
    profiles = None if profiles_dir is None else Path(profiles_dir).expanduser()
    source = cast(DbtProject, module.read_project(folder, profiles, target))
    return Project(source, Connection(source.profile, spark))


class Project:
    """The tables of a dbt project; made by `open_project`, closed by `close` or `with`.

    Changes of the project's files take effect when it is opened again.
    """

    def __init__(self, source: DbtProject, connection: Connection) -> None:
        self._source = source
        self._connection = connection

    @property
    def profile(self) -> Profile:
        """The catalog and the Spark of the project's dbt target."""
        return self._connection.profile

    @property
    def spark(self) -> SparkSession:
        """A Spark session whose default catalog is the dbt target's catalog; starts Spark."""
        return self._connection.get_session()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The project's arctic models and its ingested tables that exist, sorted by name."""
        return tuple(map(self._build_table, self._list_models()))

    def table(self, name: str) -> Table:
        """Returns the table with this name, written as `name` or `schema.name`; raises ConfigError if there is none."""
        models = self._list_models()
        for model in models:
            table = model.table
            if name in (table.name, f"{table.schema}.{table.name}", str(table)):
                return self._build_table(model)
        known = [f"{model.table.schema}.{model.table.name}" for model in models]
        nearest = suggest_nearest(name, [*known, *(model.table.name for model in models)])
        raise ConfigError(f"no arctic table is named {name!r}{nearest}.\n  found in the project: {', '.join(known)}")

    def ingest(self, *sources: str, once: bool = False) -> None:
        """Ingests change data of the project's `sources`, or of all sources if none is named, as `arctic ingest` does.

        With `once` it returns when all events that exist now are ingested; otherwise it runs until it is interrupted.
        Raises the errors of ingestion, and ConfigError if the project was opened on a Spark session of the program.
        """
        self._check_own_spark("ingest")
        self._source.run_ingestion(sources, once)

    def serve(self, *, host: str | None = None, port: int | None = None, without: Sequence[str] = ()) -> None:
        """Runs the service until it is interrupted, as `arctic serve` does: it refreshes models and serves web pages.

        `host` and `port` are the address of the pages, None for the configured one. `without` names parts that are left
        out: `ingest`, `upkeep`, `http`. Raises ConfigError if the project was opened on a Spark session of the program.
        """
        self._check_own_spark("serve")
        self._source.run_service(host, port, without)

    def close(self) -> None:
        """Ends the project's Spark sessions, so its DataFrames can't be read any more.

        Stored tables are not touched.
        """
        self._connection.close_sessions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Project({self.profile!r})"

    def _list_models(self) -> Sequence[Model]:
        self._connection.check_open()
        return self._source.list_models(self._connection.reader)

    def _build_table(self, model: Model) -> Table:
        source = self._source
        return Table(
            self._connection,
            model,
            self._list_models,
            self._refresh_model,
            source.find_counterparts,
            source.list_descendants,
        )

    def _refresh_model(self, model: Model, request: Request) -> Refreshed:
        if request.full_refresh:
            raise ConfigError(
                f"{model.table}: a model of a dbt project is not computed anew from here.",
                fix=f"dbt run --full-refresh --select {model.table.name}",
            )
        with self._connection.explain_errors():
            return self._source.refresh_model(model)

    def _check_own_spark(self, command: str) -> None:
        """Raises ConfigError if the project was opened on a Spark session of the program, or is closed.

        `command`, `ingest` or `serve`, needs a Spark with JARs and settings that the program's session may lack.
        """
        self._connection.check_open()
        if self._connection.is_joined:
            raise ConfigError(
                f"{command} can't use the Spark session of this program: it starts Spark with JARs of its own.",
                fix=f"run `arctic {command}` as a process of its own",
            )
