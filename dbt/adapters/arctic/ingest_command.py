"""The command `arctic ingest`: brings change data of the project's sources into arctic tables."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.source import IngestSource, TablesWait
from arctic_runtime.operations.operation import Answer
from arctic_runtime.profile import nearest
from arctic_runtime.spark.engine.process import PROCESS
from dbt.adapters.arctic.discovered import source_at, source_yaml
from dbt.adapters.arctic.ingest_progress import Say, counts, progress
from dbt.adapters.arctic.signals import ended_by_signals
from dbt.adapters.arctic.spark_end import ended_with_spark

if TYPE_CHECKING:
    from arctic_runtime.ingest.job import BatchReport, Ingestion

NAME = "ingest"
DESCRIPTION = "change data from databases, Kafka or files into arctic tables, as the project's sources say"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="all where none is named")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--resync",
        action="append",
        nargs="?",
        const="",
        metavar="TABLE",
        help="begin with another snapshot of a table, SOURCE.TABLE or TABLE where only one source has it, and publish "
        "what differs; of all tables of the sources where no table is named, so after SOURCE",
    )
    ways.add_argument("--replay-dead", action="store_true", help="apply dead letters that fit now, and end")
    ways.add_argument(
        "--discover",
        nargs="?",
        const="",
        metavar="SOURCE",
        help="print the YAML of a source with the tables of its database, and ingest nothing; of a source of the "
        "project, or of postgresql://user@host:port/database",
    )
    parser.add_argument(
        "--password-env", metavar="NAME", help="the environment variable with the password of --discover"
    )
    parser.add_argument("--once", action="store_true", help="stop when everything that is there now is ingested")


def perform(options: argparse.Namespace) -> Answer:
    """Ingests until the sources are drained (`--once`) or a signal ends it; raises what ingestion raises.

    With `--replay-dead` it applies dead letters instead, and ends.
    """
    from arctic_runtime.ingest.connectors import with_jars
    from arctic_runtime.spark.engine.session_pool import pool_of
    from dbt.adapters.arctic.ingested_upkeep import IngestedUpkeep
    from dbt.adapters.arctic.project import load_sources

    if options.discover is not None and "://" in options.discover:
        return _discovered([source_at(options.discover, options.password_env)])
    PROCESS.is_lasting = not (options.once or options.replay_dead)
    project = load_sources(options.project_dir, options.profiles_dir, options.target)
    if options.discover is not None:
        return _discovered(_to_discover(project.sources, [*options.sources, *filter(None, [options.discover])]))
    resync = resynced(project.sources, options.sources, options.resync or ())
    chosen = resync.sources
    pool, reader = pool_of(with_jars(project.profile, chosen)), CatalogReader(project.profile)
    session = pool.environment.session
    if options.replay_dead:
        return _replay(chosen, reader, session)
    upkeep = IngestedUpkeep(chosen, project.readers, reader, pool)
    with progress([source.name for source in chosen], options.json) as show:

        def say(source: str, batch: BatchReport) -> None:
            upkeep.batch(source, batch)
            show(source, batch)

        jobs = [_job(source, reader, session, say) for source in chosen]
        with (
            ended_with_spark(NAME, lambda _: _stop(jobs), reader.thresholds.engine),
            ended_by_signals(NAME, partial(_stop, jobs), "ends after the batch under way"),
        ):
            with nullcontext() if options.once else upkeep.beside():
                waits = run_jobs(jobs, options.once, resync)
            if options.once:
                upkeep.once()
    if waits:
        raise waits[0]
    return Answer(None, ())


def _to_discover(known: Sequence[IngestSource], names: Sequence[str]) -> Sequence[IngestSource]:
    try:
        return _chosen(known, names)
    except ConfigError as error:
        raise ConfigError(
            f"{error}\n  what to do for a source that has no tables yet, which dbt leaves out: name its database, as "
            "`--discover postgresql://user@host:port/database`"
        ) from None


def _discovered(sources: Sequence[IngestSource]) -> Answer:
    """The YAML of sources with all tables of their databases, and these as data."""
    from arctic_runtime.ingest.connectors import catalog_of

    found = [(source, catalog_of(source)) for source in sources]
    data = {source.name: [{"table": of.full_name, "primary_key": of.key} for of in tables] for source, tables in found}
    return Answer(data, tuple(line for source, tables in found for line in source_yaml(source, tables)))


@dataclass(frozen=True)
class Resync:
    """The sources to ingest, and of what another snapshot is made: of all their tables, or of some, by source."""

    sources: tuple[IngestSource, ...]
    is_full: bool = False
    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)


def resynced(known: Sequence[IngestSource], names: Sequence[str], values: Sequence[str]) -> Resync:
    """What is asked by names of sources and the values of `--resync`, an empty one for all tables of the sources.

    `--resync shop` is the same as `shop --resync` where shop is a source. Raises ConfigError for unknown names.
    """
    by_name = {source.name: source for source in known}
    named = [*names, *(value for value in values if value in by_name)]
    sources = _chosen(known, list(dict.fromkeys(named)))
    found: dict[str, frozenset[str]] = {}
    for value in values:
        if value and value not in by_name:
            source, table = _table_of(sources, value)
            found[source] = found.get(source, frozenset()) | {table}
    return Resync(tuple(sources), any(not value or value in by_name for value in values), found)


def _table_of(sources: Sequence[IngestSource], value: str) -> tuple[str, str]:
    """The source and the name of a table that is written as SOURCE.TABLE or TABLE."""
    tables = [(source.name, table.name) for source in sources for table in source.tables]
    found = [of for of in tables if value in (of[1], ".".join(of))]
    if len(found) == 1:
        return found[0]
    name, _, table = value.partition(".")
    if not found and any(source.name == name and source.include for source in sources):
        return name, table
    full = [".".join(of) for of in found or tables]
    if found:
        raise ConfigError(f"--resync {value}: {len(found)} sources have such a table: {', '.join(full)}")
    raise ConfigError(f"--resync {value}: no source that is ingested has this table{nearest(value, full)}")


def _chosen(sources: Sequence[IngestSource], names: Sequence[str]) -> Sequence[IngestSource]:
    known = {source.name: source for source in sources}
    if not known:
        raise ConfigError(
            "no source of the project is ingested.\n  expected: a source with `config: {meta: {arctic: {ingest: …}}}`\n"
            "  what to do: describe the connection there"
        )
    for name in names:
        if name not in known:
            raise ConfigError(f"no source {name!r} is ingested{nearest(name, known)}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else sources


def _replay(sources: Sequence[IngestSource], reader: CatalogReader, session: Callable[[], Any]) -> Answer:
    """Applies the dead letters of sources; the answer says what became of those of each table."""
    from arctic_runtime.ingest.connectors import connect
    from arctic_runtime.ingest.dead_letters import replay_dead_letters

    found = [
        (source.name, done)
        for source in sources
        for done in replay_dead_letters(source, connect(source, reader, session).form, reader, session)
    ]
    lines = [
        f"{source}: {done.table}: {done.read:,} dead letters: {done.applied:,} applied, "
        f"{done.superseded:,} superseded, {done.dead:,} still dead{f' ({rows})' if (rows := counts(done.rows)) else ''}"
        for source, done in found
    ]
    data = [{"source": source, "read": done.read, **asdict(done)} for source, done in found]
    return Answer(data, tuple(lines) or ("no dead letters",))


def _job(source: IngestSource, reader: CatalogReader, session: Callable[[], Any], say: Say) -> Ingestion:
    from arctic_runtime.ingest.connectors import connect
    from arctic_runtime.ingest.job import Ingestion

    connection = connect(source, reader, session)

    def report(batch: BatchReport) -> None:
        say(source.name, batch)

    return Ingestion(source, connection.transport, connection.form, reader, session, report)


def run_jobs(jobs: Sequence[Ingestion], once: bool, resync: Resync) -> list[TablesWait]:
    """Runs jobs side by side; the first that fails stops the others after their batches.

    Returns the errors of those that came to their end but for tables that wait.
    """
    with ThreadPoolExecutor(len(jobs), "source") as pool:
        futures = [
            pool.submit(job.run, once, resync.is_full, resync.tables.get(job.source.name, frozenset())) for job in jobs
        ]
        left = set(futures)
        while left:
            done, left = wait(left, return_when=FIRST_EXCEPTION)
            if any(of.exception() and not isinstance(of.exception(), TablesWait) for of in done):
                for job in jobs:
                    job.stop()
    errors = [error for of in futures if (error := of.exception()) is not None]
    for error in errors:
        if not isinstance(error, TablesWait):
            raise error
    return [error for error in errors if isinstance(error, TablesWait)]


def _stop(jobs: Sequence[Ingestion]) -> None:
    """Ends jobs; each may take a while, and a signal's handler must not."""
    for job in jobs:
        threading.Thread(target=job.stop, daemon=True).start()
