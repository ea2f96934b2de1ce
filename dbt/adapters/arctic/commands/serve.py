"""The command `arctic serve`: one process that ingests, refreshes models, maintains files, and shows its state."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.profile_file import read_profile_file
from arctic_runtime.operations.operation import Answer
from arctic_runtime.service.agents.proposals import FOLDER, ProposalStore
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners
from arctic_runtime.service.settings import ServeSettings, read_http, read_settings
from arctic_runtime.service.telemetry import logs
from arctic_runtime.service.telemetry.configured import read_telemetry
from arctic_runtime.service.telemetry.logs import JsonOutput
from arctic_runtime.service.telemetry.observation import open_service_telemetry
from arctic_runtime.spark.engine.java.process import PROCESS
from dbt.adapters.arctic.__version__ import version
from dbt.adapters.arctic.commands import selection
from dbt.adapters.arctic.commands.ingest_progress import LineWriter, Say, format_line
from dbt.adapters.arctic.commands.run import build_reporter
from dbt.adapters.arctic.commands.termination import stop_on_signals, stop_with_spark
from dbt.adapters.arctic.project.project_options import find_model_files, get_results_folder

if TYPE_CHECKING:
    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.ingest.job.ingestion import Ingestion
    from arctic_runtime.ingest.job.reports import BatchReport, BatchWork
    from arctic_runtime.ingest.source import IngestSource
    from arctic_runtime.manifest.model_files import ModelFiles
    from arctic_runtime.service.project import ServedProject
    from arctic_runtime.service.refreshing.refresh_task import Report
    from arctic_runtime.service.service import Service
    from arctic_runtime.spark.engine.session_pool import SessionPool
    from arctic_runtime.thresholds import Thresholds

NAME = "serve"
PARTS = ("ingest", "upkeep", "http")


@dataclass(frozen=True)
class Prepared:
    """A project that the service keeps fresh, and what the service takes from its target."""

    project: ServedProject
    settings: ServeSettings
    schema: str
    """Schema of the service's own table."""

    list_sources: Callable[[], Sequence[IngestSource]] = lambda: ()
    """Returns the sources to ingest, as of the last load of the project."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    selection.add_arguments(parser, "all arctic models")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=PARTS,
        help="leave a part to somebody else: `arctic ingest`, or the upkeep after each `dbt run`; can be repeated",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="lines for people (default), or JSON for programs",
    )
    parser.add_argument("--host", help="the address for HTTP (default: 127.0.0.1); others need a token in the profile")
    parser.add_argument("--port", type=int, help="the port for HTTP (default: 8470); 0 takes any that is free")


def perform_command(options: argparse.Namespace) -> Answer:
    """Runs the service until a signal ends it; raises ConfigError for an unusable project or unusable settings."""
    from arctic_runtime.service.service import Service, ServiceWork
    from arctic_runtime.service.shared_state import ServiceWarehouse
    from arctic_runtime.spark.engine.session_pool import get_pool

    PROCESS.is_lasting = True
    is_json = options.log_format == "json"
    output = JsonOutput() if is_json else None
    warn = logs.log_message if is_json else _print_warning
    files = find_model_files(options)
    prepared = _prepare_project(options, warn) if files is None else _prepare_files(files, options, warn)
    project, settings = prepared.project, prepared.settings
    reader, pool = project.reader, get_pool(project.reader.profile)
    pool.environment.ensure_jars()
    report: Callable[[Report], None] = _ignore_report if is_json else build_reporter(options.json, once=False)
    if output is not None:
        PROCESS.report = logs.log_message
        output.mask_secrets(_list_secrets(settings, prepared.list_sources()))

    show = _show_nothing if is_json or options.json else LineWriter(_print_line).write_line

    def list_ingestions() -> Sequence[SourceIngestion]:
        sources = () if "ingest" in options.without else prepared.list_sources()
        if output is not None:  # an edit of the project may have changed a password
            output.mask_secrets(_list_secrets(settings, sources))
        return [SourceIngestion(source, reader, pool, service, show) for source in sources]

    with ExitStack() as parts:
        observed = read_telemetry({}, options.project_dir, os.environ)
        telemetry = parts.enter_context(open_service_telemetry(observed, reader, project.name, warn))
        listeners = telemetry.add_to(RefreshListeners(warn, report))
        warehouse = ServiceWarehouse(reader, pool, ServiceTable(prepared.schema, reader))
        work = ServiceWork(None if "upkeep" in options.without else settings.budget, list_ingestions)
        service = Service(project, warehouse, work, listeners, version)
        if is_json:
            parts.enter_context(logs.EventLogger(service.live.events, reader.thresholds.service))
        if "http" not in options.without:
            parts.enter_context(_serve_http(service, settings, options, reader.thresholds, warn))
        parts.enter_context(stop_on_signals(NAME, service.stop_service, "ends after the work under way", warn))
        parts.enter_context(stop_with_spark(NAME, service.end_without_spark, reader.thresholds.engine))
        warn(f"keeps {len(project.list_followed())} models fresh, {project.threads} side by side")
        service.run_service()
    return Answer(None, ())


def _prepare_project(options: argparse.Namespace, warn: Callable[[str], None]) -> Prepared:
    from dbt.adapters.arctic.project.live_project import LiveProject
    from dbt.adapters.arctic.project.loaded_project import Location

    location = Location(
        options.project_dir, options.profiles_dir, options.target, options.select, options.exclude, is_served=True
    )
    project = LiveProject(location, warn)
    credentials: Any = project.loaded.config.credentials
    settings = read_settings(credentials.serve)
    schema = settings.schema or str(credentials.schema)
    return Prepared(project, settings, schema, lambda: project.sources)


def _prepare_files(files: ModelFiles, options: argparse.Namespace, warn: Callable[[str], None]) -> Prepared:
    from arctic_runtime.manifest.manifest_project import ManifestProject

    target = read_profile_file(options.profile)
    settings = read_settings(target.serve)
    if not settings.schema:
        raise ConfigError(
            "the service does not know in which schema to keep its own table.",
            where=str(options.profile),
            expected="serve: {schema: …}, the name of a schema in the catalog",
            fix="add it; services with the same schema are one another's standby",
        )
    project = ManifestProject(files, target, options.select, options.exclude, warn, is_served=True)
    return Prepared(project, settings, settings.schema)


@contextmanager
def _serve_http(
    service: Service,
    settings: ServeSettings,
    options: argparse.Namespace,
    thresholds: Thresholds,
    warn: Callable[[str], None],
) -> Iterator[None]:
    """Serves the HTTP API and the page until the context ends; raises ConfigError if the address can't be used."""
    _check_installed()
    from arctic_runtime.service.http.agent_routes import HttpAgents
    from arctic_runtime.service.http.server import HttpServer
    from arctic_runtime.service.telemetry.metrics import Metrics

    proposals = ProposalStore(get_results_folder(options) / FOLDER, settings.agents.plan_age)
    agents = HttpAgents(settings.agents, proposals)
    options_given = {"host": options.host, "port": options.port}
    written = {**settings.http, **{key: value for key, value in options_given.items() if value is not None}}
    with (
        Metrics(service.live, thresholds.service) as metrics,
        HttpServer(service.live, read_http(written), metrics.format_metrics, thresholds.http, agents) as server,
    ):
        warn(f"shows the warehouse at {server.url}")
        yield


def _list_secrets(settings: ServeSettings, sources: Iterable[IngestSource]) -> list[str]:
    """Returns the secrets of the settings and sources, which must not appear in logs, not even in error messages."""
    token = settings.http.get("token")
    return [*([str(token)] if token else []), *(text for source in sources for text in source.list_secrets(os.environ))]


def _check_installed() -> None:
    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            "the API and the page of `arctic serve` need packages that are not installed.",
            actual=f"no {missing[0]}",
            fix="pip install 'dbt-arctic[serve]', or leave them out by --without http",
        )


@dataclass
class SourceIngestion:
    """The ingestion of one source for a service; each start creates a new job, since an ended job can't run again."""

    source: IngestSource
    reader: CatalogReader
    pool: SessionPool
    service: Service
    show: Say
    _job: Ingestion | None = field(default=None, init=False)
    _is_stopped: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def settings(self) -> IngestSource:
        return self.source

    def run_ingestion(self) -> None:
        from arctic_runtime.ingest.connectors import connect
        from arctic_runtime.ingest.job.ingestion import Ingestion
        from arctic_runtime.ingest.job.reports import JobListeners

        session = self.pool.environment.new_session
        connection = connect(self.source, self.reader, session)
        listeners = JobListeners(self._report_batch, self._begin_work, self._note_answer)
        job = Ingestion(self.source, connection, self.reader, session, listeners)
        self._job = job
        if not self._is_stopped:
            job.run(once=False)

    def stop_ingestion(self) -> None:
        self._is_stopped = True
        if self._job is not None:
            self._job.stop()

    def _begin_work(self, work: BatchWork) -> None:
        from arctic_runtime.ingest.connectors import describe_connection

        reason = f"{work.describe_work()} from {describe_connection(self.source)}"
        self.service.activity.ingest_jobs.begin_batch((self.name, work.is_background), work.tables, reason)

    def _note_answer(self, error: str) -> None:
        activity = self.service.activity
        if error:
            activity.fail_ingestion(self.name, error, is_running=True)
        else:
            activity.confirm_ingestion(self.name)

    def _report_batch(self, batch: BatchReport) -> None:
        from arctic_runtime.ingest.job.ingestion import describe_waits

        self.show(self.name, batch)
        rows = sum((Counter(table.rows) for table in batch.tables), Counter[str]())
        activity = self.service.activity
        activity.ingest_jobs.end_batch((self.name, batch.is_background), rows, format_line(self.name, batch))
        failure = batch.progress.failure
        if failure is None:
            activity.confirm_ingestion(self.name, describe_waits(batch.progress.waits))
        elif not batch.count:
            activity.fail_ingestion(self.name, failure.message, is_running=True)
        if batch.count:
            data = {
                "events": batch.count,
                "seconds": round(batch.seconds, 3),
                "tables": {table_batch.table: dict(table_batch.rows) for table_batch in batch.tables},
                "dead": sum(table_batch.dead for table_batch in batch.tables),
                "behind": batch.behind,
            }
            names = {table.name: table.table for table in self.source.tables}
            written = [names[table_batch.table] for table_batch in batch.tables if table_batch.table in names]
            self.service.handle_batch(self.name, data, written)


def _print_line(text: str) -> None:
    print(text, flush=True)


def _show_nothing(source: str, batch: BatchReport) -> None:
    """Prints nothing for a batch: in JSON output, the events of jobs and batches report it."""


def _ignore_report(report: Report) -> None:
    """Prints nothing for a refresh: in JSON output, the events of jobs report it."""


def _print_warning(text: str) -> None:
    print(f"arctic serve: {text}", file=sys.stderr, flush=True)
