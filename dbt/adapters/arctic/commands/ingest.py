"""The command `arctic ingest`: ingests change data of the project's sources into arctic tables."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.ingest.source import IngestSource, TablesWait
from arctic_runtime.operations.operation import Answer
from arctic_runtime.service.telemetry.command_metrics import Command
from arctic_runtime.service.telemetry.observation import Telemetry, open_telemetry
from arctic_runtime.spark.engine.java.process import PROCESS
from dbt.adapters.arctic.commands.ingest_job import IngestJob
from dbt.adapters.arctic.commands.ingest_progress import Say, format_counts, show_progress
from dbt.adapters.arctic.commands.termination import stop_on_signals, stop_with_spark
from dbt.adapters.arctic.project.discovered_sources import build_source_at, write_source_yaml

if TYPE_CHECKING:
    from arctic_runtime.ingest.job.ingestion import Ingestion
    from arctic_runtime.ingest.job.reports import BatchReport
    from arctic_runtime.thresholds import EngineThresholds
    from dbt.adapters.arctic.commands.ingest_upkeep import IngestedUpkeep
    from dbt.adapters.arctic.project.project_tables import CompiledProject

NAME = "ingest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="*", metavar="SOURCE", help="the sources of the project to ingest (default: all)"
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--resync",
        action="append",
        nargs="?",
        const="",
        metavar="TABLE",
        help="first load a table anew, and publish what differs: SOURCE.TABLE, or TABLE if only one source has it; "
        "without a table all tables of the sources, so after SOURCE; can be repeated",
    )
    ways.add_argument("--replay-dead", action="store_true", help="apply the dead letters that fit now, and end")
    ways.add_argument(
        "--discover",
        nargs="?",
        const="",
        metavar="SOURCE",
        help="ingest nothing, and print the YAML of a source with the tables of its database: of a source of the "
        "project, or of postgresql://user@host:port/database",
    )
    parser.add_argument(
        "--password-env",
        metavar="NAME",
        help="with --discover and an address: the environment variable that has the password",
    )
    parser.add_argument("--once", action="store_true", help="stop when everything that is there now is ingested")


def perform_command(options: argparse.Namespace) -> Answer:
    """Ingests until no events are left (`--once`) or a signal ends it; raises the errors of ingestion.

    With `--replay-dead` it applies dead letters instead, and with `--discover` it prints YAML for dbt sources.
    """
    from arctic_runtime.ingest.connectors import with_jars
    from arctic_runtime.spark.engine.session_pool import get_pool
    from arctic_runtime.spark.engine.thread_imports import preload_modules
    from dbt.adapters.arctic.commands.ingest_upkeep import IngestedUpkeep
    from dbt.adapters.arctic.project.compiled_project import load_sources

    if options.discover is not None and "://" in options.discover:
        return _discover_tables([build_source_at(options.discover, options.password_env)])
    PROCESS.is_lasting = not (options.once or options.replay_dead)
    project = load_sources(options.project_dir, options.profiles_dir, options.target)
    if options.discover is not None:
        return _discover_tables(_to_discover(project.sources, [*options.sources, *filter(None, [options.discover])]))
    resync = parse_resync(project.sources, options.sources, options.resync or ())
    chosen = resync.sources
    pool, reader = get_pool(with_jars(project.profile, chosen)), CatalogReader(project.profile)
    pool.environment.ensure_jars()
    preload_modules(project.profile)
    session = pool.environment.new_session
    if options.replay_dead:
        return _replay_dead_letters(chosen, reader, session)
    upkeep = IngestedUpkeep(chosen, project.readers, reader, pool)
    with _open_telemetry(options.once, project, reader) as telemetry:
        with show_progress([source.name for source in chosen], options.json) as show:

            def show_batch(source: str, batch: BatchReport) -> None:
                upkeep.note_batch(source, batch)
                show(source, batch)
                telemetry.report_batch(source, batch)

            jobs = [_build_job(source, reader, session, show_batch) for source in chosen]
            waits = _ingest_sources(jobs, resync, upkeep, options.once, reader.thresholds.engine)
        if waits:
            raise waits[0]
    return Answer(None, ())


def _ingest_sources(
    jobs: Sequence[IngestJob], resync: Resync, upkeep: IngestedUpkeep, once: bool, limits: EngineThresholds
) -> list[TablesWait]:
    """Runs jobs until they end, or a signal or Spark ends them, with upkeep of their tables; returns as `run_jobs`."""
    with (
        stop_with_spark(NAME, lambda _: _stop_jobs(jobs), limits),
        stop_on_signals(NAME, partial(_stop_jobs, jobs), "ends after the batch under way"),
    ):
        with nullcontext() if once else upkeep.run_in_background():
            waits = run_jobs(jobs, once, resync)
        if once:
            upkeep.run_once()
    return waits


def _open_telemetry(once: bool, project: CompiledProject, reader: CatalogReader) -> Telemetry:
    """Builds the observer of an ingestion, of which no lineage is sent."""
    command = Command("arctic ingest --once" if once else "arctic ingest", project.name, project.target)
    settings = replace(project.telemetry, has_lineage=False)
    return open_telemetry(
        command, settings, lambda: reader, _print_warning, reader.thresholds.telemetry, is_lasting=not once
    )


def _print_warning(text: str) -> None:
    print(f"arctic ingest: {text}", file=sys.stderr, flush=True)


def _to_discover(known: Sequence[IngestSource], names: Sequence[str]) -> Sequence[IngestSource]:
    try:
        return _choose_sources(known, names)
    except ConfigError as error:
        advice = (
            "for a source that has no tables yet, which dbt leaves out, name its database, as "
            "`--discover postgresql://user@host:port/database`"
        )
        fix = advice if error.fix is None else f"{error.fix}; {advice}"
        raise ConfigError(error.message, expected=error.expected, fix=fix) from None


def _discover_tables(sources: Sequence[IngestSource]) -> Answer:
    """Builds the answer with the YAML that declares all tables of the sources' databases; its data are these tables."""
    from arctic_runtime.ingest.connectors import list_source_tables

    tables_by_source = [(source, list_source_tables(source)) for source in sources]
    data = {
        source.name: [{"table": table.full_name, "primary_key": table.key} for table in tables]
        for source, tables in tables_by_source
    }
    return Answer(
        data, tuple(line for source, tables in tables_by_source for line in write_source_yaml(source, tables))
    )


@dataclass(frozen=True)
class Resync:
    """The `sources` to ingest, and the tables of these sources that are loaded again from a new snapshot.

    The latter are all tables if `is_full`, else `tables`, by source name.
    """

    sources: tuple[IngestSource, ...]
    is_full: bool = False
    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)


def parse_resync(known: Sequence[IngestSource], names: Sequence[str], values: Sequence[str]) -> Resync:
    """Parses names of sources and the values of `--resync`; an empty value means all tables of the sources.

    `--resync shop` is the same as `shop --resync` if shop is a source. Raises ConfigError for unknown names.
    """
    by_name = {source.name: source for source in known}
    named = [*names, *(value for value in values if value in by_name)]
    sources = _choose_sources(known, list(dict.fromkeys(named)))
    tables_by_source: dict[str, frozenset[str]] = {}
    for value in values:
        if value and value not in by_name:
            source, table = _find_table(sources, value)
            tables_by_source[source] = tables_by_source.get(source, frozenset()) | {table}
    return Resync(tuple(sources), any(not value or value in by_name for value in values), tables_by_source)


def _find_table(sources: Sequence[IngestSource], value: str) -> tuple[str, str]:
    """Returns the names of the source and the table that `value` names, written as SOURCE.TABLE or TABLE.

    Raises ConfigError if no table or several tables match.
    """
    tables = [(source.name, table.name) for source in sources for table in source.tables]
    matches = [candidate for candidate in tables if value in (candidate[1], ".".join(candidate))]
    if len(matches) == 1:
        return matches[0]
    name, _, table = value.partition(".")
    if not matches and any(source.name == name and source.include for source in sources):
        return name, table
    full = [".".join(candidate) for candidate in matches or tables]
    if matches:
        raise ConfigError(f"--resync {value}: {len(matches)} sources have a table of this name: {', '.join(full)}")
    raise ConfigError(f"--resync {value}: unknown table{suggest_nearest(value, full)}")


def _choose_sources(sources: Sequence[IngestSource], names: Sequence[str]) -> Sequence[IngestSource]:
    known = {source.name: source for source in sources}
    if not known:
        raise ConfigError(
            "no source of the project is ingested.",
            expected="a source with `config: {meta: {arctic: {ingest: …}}}`",
            fix="describe the connection there",
        )
    for name in names:
        if name not in known:
            raise ConfigError(
                f"no source {name!r} is ingested{suggest_nearest(name, known)}; there are {', '.join(known)}"
            )
    return [known[name] for name in names] if names else sources


def _replay_dead_letters(sources: Sequence[IngestSource], reader: CatalogReader, session: Callable[[], Any]) -> Answer:
    """Applies the dead letters of sources; the answer has the number of dead letters by table and outcome."""
    from arctic_runtime.ingest.connectors import connect
    from arctic_runtime.ingest.dead_letters.replay import replay_dead_letters

    outcomes = []
    for source in sources:
        connection = connect(source, reader, session)
        replayed = replay_dead_letters(source, connection.form, reader, session, connection.read_messages)
        outcomes += [(source.name, done) for done in replayed]
    lines = [
        f"{source}: {done.table}: {done.read:,} dead letters: {done.applied:,} applied, "
        f"{done.superseded:,} superseded, {done.dead:,} still dead"
        f"{f' ({rows})' if (rows := format_counts(done.rows)) else ''}"
        for source, done in outcomes
    ]
    data = [{"source": source, "read": done.read, **asdict(done)} for source, done in outcomes]
    return Answer(data, tuple(lines) or ("no dead letters",))


def _build_job(source: IngestSource, reader: CatalogReader, session: Callable[[], Any], say: Say) -> IngestJob:
    from arctic_runtime.ingest.connectors import connect
    from arctic_runtime.ingest.job.ingestion import Ingestion
    from arctic_runtime.ingest.job.reports import JobListeners

    def build_ingestion(report: Callable[[BatchReport], None]) -> Ingestion:
        return Ingestion(source, connect(source, reader, session), reader, session, JobListeners(report))

    report = partial(say, source.name)
    return IngestJob(source, build_ingestion, report, _print_warning, reader.thresholds.service)


def run_jobs(jobs: Sequence[IngestJob], once: bool, resync: Resync) -> list[TablesWait]:
    """Ingests in parallel, one thread per job; if one fails, the others stop after their current batches.

    With `once` a job ends when no events are left. `resync` has the tables that get a new snapshot. Returns the
    TablesWait errors of jobs that have ended while a user has to load some of their tables again. Raises other errors.
    """
    with ThreadPoolExecutor(len(jobs), "source") as pool:
        futures = [
            pool.submit(job.run, once, resync.is_full, resync.tables.get(job.source.name, frozenset())) for job in jobs
        ]
        left = set(futures)
        while left:
            done, left = wait(left, return_when=FIRST_EXCEPTION)
            if any(future.exception() and not isinstance(future.exception(), TablesWait) for future in done):
                for job in jobs:
                    job.stop()
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, TablesWait):
            raise error
    return [error for error in errors if isinstance(error, TablesWait)]


def _stop_jobs(jobs: Sequence[IngestJob]) -> None:
    """Requests in new threads that all jobs stop, as that may take a while and signal handlers must not wait."""
    for job in jobs:
        threading.Thread(target=job.stop, daemon=True).start()
