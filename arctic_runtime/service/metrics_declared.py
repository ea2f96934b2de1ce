"""Every metric of a service: its name, its labels, its meaning, and where its values come from."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Any, Literal, get_args

from arctic_runtime.service.event_log import Event
from arctic_runtime.service.live import IngestionState, Job, JobKind, ServiceState, TableOverview, TableState, Upkeep

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, in their order, and the value of the metric."""

ENDED: frozenset[str] = frozenset({"done", "failed", "cancelled"})
_ROLES = ("starting", "leads", "stands_by", "ending")
_ACTIONS = ("insert", "update", "delete")
_TABLE = ("table", "layer")
_OF_SOURCE = ("source",)


@dataclass(frozen=True)
class Snapshot:
    """What a service tells of itself at one moment."""

    now: datetime
    state: ServiceState
    tables: Sequence[TableOverview]
    jobs: Sequence[Job]
    upkeep: Sequence[Upkeep]


@dataclass(frozen=True)
class Gauge:
    """A metric whose values are read from a snapshot."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    read: Callable[[Snapshot], Iterable[Sample]]


def _no_samples(_: Snapshot) -> Iterable[tuple[str, ...]]:
    return ()


@dataclass(frozen=True)
class Counter:
    """A metric that grows with events. `expected` are labels that are shown with 0 before the first of their events.

    A counter that begins with its first event hides that one from Prometheus, which sees only differences.
    """

    name: str
    labels: tuple[str, ...]
    meaning: str
    count: Callable[[Event], Iterable[Sample]]
    expected: Callable[[Snapshot], Iterable[tuple[str, ...]]] = _no_samples


SECONDS_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


@dataclass(frozen=True)
class Histogram:
    """A metric of how values of events are distributed."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    observe: Callable[[Event], Iterable[Sample]]
    expected: Callable[[Snapshot], Iterable[tuple[str, ...]]] = _no_samples
    buckets: tuple[float, ...] = field(default=SECONDS_BUCKETS)


# Gauges


def _of(read: Callable[[Snapshot], float]) -> Callable[[Snapshot], Iterable[Sample]]:
    """One value for the whole service."""
    return lambda snapshot: (((), read(snapshot)),)


def _names(of: TableOverview) -> tuple[str, str]:
    return (str(of.table), str(of.layer))


def _of_tables(read: Callable[[TableOverview, datetime], float | None]) -> Callable[[Snapshot], Iterable[Sample]]:
    """A value for each table that has one."""

    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for of in snapshot.tables:
            value = read(of, snapshot.now)
            if value is not None:
                yield _names(of), value

    return samples


def _of_built(read: Callable[[TableOverview], float]) -> Callable[[Snapshot], Iterable[Sample]]:
    """A value for each table that exists and can be looked at."""
    return _of_tables(lambda of, _: None if of.state == "missing" or not of.version else read(of))


def _age(now: datetime, since: datetime | None) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())


def _stale(of: TableOverview, now: datetime) -> float | None:
    return None if of.freshness is None else _age(now, of.freshness.as_of)


def _allowed_lag(of: TableOverview, _: datetime) -> float | None:
    return None if of.freshness is None else of.freshness.allowed_lag_seconds


def _timestamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _table_states(snapshot: Snapshot) -> Iterator[Sample]:
    for of, state in product(snapshot.tables, get_args(TableState)):
        yield (*_names(of), state), float(of.state == state)


def _tables_by_state(snapshot: Snapshot) -> Iterator[Sample]:
    counts = Counts((of.layer, of.state) for of in snapshot.tables)
    for layer, state in product(sorted({of.layer for of in snapshot.tables}), get_args(TableState)):
        yield (str(layer), state), float(counts[layer, state])


def _readers(number: Literal["commits", "rows"]) -> Callable[[Snapshot], Iterable[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for of in snapshot.tables:
            for lag in of.readers:
                yield (*_names(of), lag.model), float(lag.commits if number == "commits" else lag.rows)

    return samples


def _of_ingested(read: Callable[[IngestionState, datetime], float | None]) -> Callable[[Snapshot], Iterable[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for of in snapshot.tables:
            value = None if of.ingestion is None else read(of.ingestion, snapshot.now)
            if of.ingestion is not None and value is not None:
                yield (*_names(of), of.ingestion.source), value

    return samples


def _of_sources(read: Callable[[IngestionState], float]) -> Callable[[Snapshot], Iterable[Sample]]:
    """The highest value that the tables of a source tell."""

    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        found: dict[str, float] = {}
        for of in (of.ingestion for of in snapshot.tables if of.ingestion is not None):
            found[of.source] = max(read(of), found.get(of.source, 0.0))
        return (((source,), value) for source, value in found.items())

    return samples


def _jobs_by_state(snapshot: Snapshot) -> Iterator[Sample]:
    counts: Counts[tuple[str, str]] = Counts((job.kind, job.state) for job in snapshot.jobs)
    for kind, state in product(get_args(JobKind), ("waiting", "running")):
        yield (kind, state), float(counts[kind, state])


def _longest_running(snapshot: Snapshot) -> Iterator[Sample]:
    for kind in get_args(JobKind):
        ages = [_age(snapshot.now, job.began_at) for job in snapshot.jobs if (job.kind, job.state) == (kind, "running")]
        yield (kind,), max((age for age in ages if age is not None), default=0.0)


def _planned_upkeep(read: Callable[[Upkeep], float]) -> Callable[[Snapshot], Iterable[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for operation in ("compact", "expire"):
            yield (operation,), sum(read(of) for of in snapshot.upkeep if of.operation == operation)

    return samples


def _last_look(snapshot: Snapshot) -> Iterator[Sample]:
    if snapshot.state.looked_at is not None:
        yield (), snapshot.state.looked_at.timestamp()


GAUGES = (
    # The service.
    Gauge(
        "arctic_service_info",
        ("project", "version"),
        "Always 1; tells project and version.",
        lambda of: (((of.state.project, of.state.version), 1.0),),
    ),
    Gauge(
        "arctic_service_start_time_seconds",
        (),
        "When the service started, in seconds since 1970.",
        _of(lambda of: of.state.started_at.timestamp()),
    ),
    Gauge(
        "arctic_service_role",
        ("role",),
        "1 for the role that the service has, 0 for the others: starting, leads, stands_by or ending.",
        lambda of: (((role,), float(of.state.role == role)) for role in _ROLES),
    ),
    Gauge("arctic_service_paused", (), "1 while all work is paused.", _of(lambda of: float(of.state.is_paused))),
    Gauge(
        "arctic_service_last_look_timestamp_seconds",
        (),
        "When the service last looked where tables stand, in seconds since 1970.",
        _last_look,
    ),
    Gauge(
        "arctic_service_part_failing",
        ("part",),
        "1 for each part of the service that does not work now, such as the catalog.",
        lambda of: (((part,), 1.0) for part in sorted(of.state.errors)),
    ),
    # Tables.
    Gauge("arctic_tables", ("layer", "state"), "Tables by layer and state.", _tables_by_state),
    Gauge("arctic_table_state", (*_TABLE, "state"), "1 for the state that a table has, 0 for others.", _table_states),
    Gauge(
        "arctic_table_stale_seconds",
        _TABLE,
        "How long ago the state of its sources is that a table shows, through all layers; none if that is not known.",
        _of_tables(_stale),
    ),
    Gauge(
        "arctic_table_target_lag_seconds",
        _TABLE,
        "How old the rows of a table may be: its target_lag, after those of the tables above it.",
        _of_tables(_allowed_lag),
    ),
    Gauge(
        "arctic_table_last_commit_timestamp_seconds",
        _TABLE,
        "Time of a table's newest commit, in seconds since 1970.",
        _of_tables(lambda of, _: _timestamp(of.changed_at)),
    ),
    Gauge(
        "arctic_table_last_refresh_timestamp_seconds",
        _TABLE,
        "Time of the newest refresh that found a table up to date, in seconds since 1970.",
        _of_tables(lambda of, _: _timestamp(of.refreshed_at)),
    ),
    Gauge("arctic_table_rows", _TABLE, "Rows of a table.", _of_built(lambda of: of.rows)),
    Gauge("arctic_table_files", _TABLE, "Data files of a table.", _of_built(lambda of: of.files)),
    Gauge("arctic_table_size_bytes", _TABLE, "Size of a table's data files.", _of_built(lambda of: of.bytes)),
    Gauge("arctic_table_hash_nodes", _TABLE, "Hash nodes of a table.", _of_built(lambda of: of.nodes)),
    Gauge("arctic_table_versions", _TABLE, "Versions of a table that are kept.", _of_built(lambda of: of.versions)),
    Gauge(
        "arctic_table_unmerged_commits",
        _TABLE,
        "Commits of the change table that are not merged into the base.",
        _of_built(lambda of: of.unmerged_commits),
    ),
    Gauge(
        "arctic_table_unmerged_rows",
        _TABLE,
        "Rows of the change table that are not merged into the base.",
        _of_built(lambda of: of.unmerged_rows),
    ),
    Gauge(
        "arctic_table_recent_rows",
        _TABLE,
        "Rows of a table that were changed within the last minute.",
        _of_built(lambda of: of.recent_rows),
    ),
    Gauge(
        "arctic_table_waste_bytes",
        _TABLE,
        "Bytes that readers of a table read in vain until the upkeep that is due is done.",
        _of_built(lambda of: of.waste_bytes),
    ),
    Gauge(
        "arctic_reader_lag_commits",
        (*_TABLE, "reader"),
        "Commits of a table that a model has yet to read.",
        _readers("commits"),
    ),
    Gauge(
        "arctic_reader_lag_rows", (*_TABLE, "reader"), "Rows of a table that a model has yet to read.", _readers("rows")
    ),
    # Ingestion.
    Gauge(
        "arctic_ingestion_lag_seconds",
        (*_TABLE, "source"),
        "How far an ingested table is behind its source.",
        _of_ingested(lambda of, now: _age(now, of.as_of)),
    ),
    Gauge(
        "arctic_ingestion_failing",
        (*_TABLE, "source"),
        "1 for an ingested table whose ingestion fails, until a batch has succeeded.",
        _of_ingested(lambda of, _: float(bool(of.error))),
    ),
    Gauge(
        "arctic_ingestion_running",
        _OF_SOURCE,
        "1 while a process ingests a source.",
        _of_sources(lambda of: float(of.is_running)),
    ),
    Gauge(
        "arctic_ingestion_dead_letters",
        _OF_SOURCE,
        "Events of a source that could not be applied and wait for a replay.",
        _of_sources(lambda of: of.dead_letters),
    ),
    # Work.
    Gauge("arctic_jobs", ("kind", "state"), "Jobs that wait or run.", _jobs_by_state),
    Gauge(
        "arctic_job_running_seconds", ("kind",), "How long the longest running job has been running.", _longest_running
    ),
    Gauge(
        "arctic_upkeep_planned",
        ("operation",),
        "Tables for which upkeep is planned.",
        _planned_upkeep(lambda _: 1.0),
    ),
    Gauge(
        "arctic_upkeep_planned_bytes",
        ("operation",),
        "Bytes that the planned upkeep will write.",
        _planned_upkeep(lambda of: of.bytes),
    ),
)


# Counters and histograms


def _ended(event: Event) -> Job | None:
    job = event.data
    return job if event.kind == "job" and job.state in ENDED else None


def _of_job(count: Callable[[Job], Iterable[Sample]]) -> Callable[[Event], Iterable[Sample]]:
    """Samples of each job that ends."""

    def samples(event: Event) -> Iterable[Sample]:
        job = _ended(event)
        return () if job is None else count(job)

    return samples


def _refreshed(count: Callable[[Job], Iterable[Sample]]) -> Callable[[Event], Iterable[Sample]]:
    return _of_job(lambda job: count(job) if job.kind == "refresh" else ())


def _written(job: Job) -> Iterator[Sample]:
    if job.kind != "refresh":
        yield from (((str(table), job.name), float(job.bytes)) for table in job.tables[:1] if job.bytes)


def _waited(job: Job) -> Iterator[Sample]:
    if job.began_at is not None:
        yield (job.kind,), max(0.0, (job.began_at - job.queued_at).total_seconds())


def _batch(count: Callable[[Mapping[str, Any]], Iterable[Sample]]) -> Callable[[Event], Iterable[Sample]]:
    """Samples of each ingested batch: its `source`, `events`, those that are `dead`, and rows of `tables` by action."""
    return lambda event: count(event.data) if event.kind == "batch" else ()


def _ingested_rows(batch: Mapping[str, Any]) -> Iterator[Sample]:
    for table, rows in batch["tables"].items():
        yield from (((batch["source"], table, action), float(number)) for action, number in rows.items())


def _sources(snapshot: Snapshot) -> Iterable[tuple[str, ...]]:
    return {(of.ingestion.source,): None for of in snapshot.tables if of.ingestion is not None}


def _models(snapshot: Snapshot) -> list[str]:
    return [str(of.table) for of in snapshot.tables if of.kind == "model"]


COUNTERS = (
    Counter(
        "arctic_refreshes_total",
        ("table", "outcome"),
        "Refreshes that ended, by outcome: done, failed or cancelled.",
        _refreshed(lambda job: (((str(table), job.state), 1.0) for table in job.tables)),
        lambda of: product(_models(of), sorted(ENDED)),
    ),
    Counter(
        "arctic_refresh_seconds_total",
        ("table",),
        "Seconds that refreshes of a table took.",
        _refreshed(lambda job: (((str(table),), job.seconds) for table in job.tables)),
        lambda of: ((table,) for table in _models(of)),
    ),
    Counter(
        "arctic_refreshed_rows_total",
        ("table", "action"),
        "Rows that refreshes changed, by action: insert, update or delete.",
        _refreshed(lambda job: (((str(job.tables[0]), action), float(rows)) for action, rows in job.rows.items())),
        lambda of: product(_models(of), _ACTIONS),
    ),
    Counter(
        "arctic_jobs_ended_total",
        ("kind", "outcome"),
        "Jobs that ended, by kind (refresh, ingest, upkeep, operation, run, test) and outcome.",
        _of_job(lambda job: (((job.kind, job.state), 1.0),)),
        lambda _: product(get_args(JobKind), sorted(ENDED)),
    ),
    Counter(
        "arctic_upkeep_bytes_total",
        ("table", "operation"),
        "Bytes that upkeep and operations wrote, by operation.",
        _of_job(_written),
    ),
    Counter(
        "arctic_ingested_rows_total",
        ("source", "source_table", "action"),
        "Rows that ingestion changed, by the name of the table in its source and by action.",
        _batch(_ingested_rows),
    ),
    Counter(
        "arctic_ingested_events_total",
        _OF_SOURCE,
        "Events of a source that ingestion read.",
        _batch(lambda batch: (((batch["source"],), float(batch["events"])),)),
        _sources,
    ),
    Counter(
        "arctic_ingested_dead_events_total",
        _OF_SOURCE,
        "Events of a source that could not be applied, and became dead letters.",
        _batch(lambda batch: (((batch["source"],), float(batch["dead"])),)),
        _sources,
    ),
    Counter("arctic_events_total", ("kind",), "Events of the service, by kind.", lambda of: (((of.kind,), 1.0),)),
)
MISSED = Counter(
    "arctic_events_missed_total",
    (),
    "Events that came too fast to be counted here; counters lack what they told.",
    lambda _: (),
    lambda _: ((),),
)

HISTOGRAMS = (
    Histogram(
        "arctic_job_duration_seconds",
        ("kind",),
        "How long jobs ran; those of kind refresh are the refreshes.",
        _of_job(lambda job: (((job.kind,), job.seconds),) if job.began_at is not None else ()),
        lambda _: ((kind,) for kind in get_args(JobKind)),
    ),
    Histogram(
        "arctic_job_wait_seconds",
        ("kind",),
        "How long jobs waited in the queue.",
        _of_job(_waited),
        lambda _: ((kind,) for kind in get_args(JobKind)),
    ),
)

METRICS: tuple[Gauge | Counter | Histogram, ...] = (*GAUGES, *COUNTERS, MISSED, *HISTOGRAMS)


def describe_metrics() -> str:
    """The table of metrics in docs/metrics.md, in Markdown."""
    kinds = {Gauge: "gauge", Counter: "counter", Histogram: "histogram"}
    rows = (
        f"| `{of.name}` | {kinds[type(of)]} | {', '.join(f'`{name}`' for name in of.labels)} | {of.meaning} |"
        for of in METRICS
    )
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]).replace("|  |", "| |")
