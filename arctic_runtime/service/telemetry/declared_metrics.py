"""Declares all metrics of a service: name, labels, meaning, and the function that computes the values."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Any, Literal, get_args

from arctic_runtime.service.view.event_log import Event
from arctic_runtime.service.view.live_data import (
    IngestionState,
    Job,
    JobKind,
    ServiceState,
    TableOverview,
    TableState,
    Upkeep,
)

Sample = tuple[tuple[str, ...], float]
"""The values of the metric's labels, in the order of the metric's `labels`, and the value of the metric."""

ENDED: frozenset[str] = frozenset({"done", "failed", "cancelled"})
_ROLES = ("starting", "leads", "stands_by", "ending")
_ACTIONS = ("insert", "update", "delete")
_TABLE = ("table", "layer")
_OF_SOURCE = ("source",)


@dataclass(frozen=True)
class ServiceSnapshot:
    """State of a service at one moment."""

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
    read: Callable[[ServiceSnapshot], Iterable[Sample]]


def _list_no_samples(_: ServiceSnapshot) -> Iterable[tuple[str, ...]]:
    return ()


@dataclass(frozen=True)
class Counter:
    """A metric that counts events; `count` returns the amounts that an event adds, by label values.

    `expected` lists label values that are shown with 0 before their first event. Prometheus sees only differences, so
    it would miss the first event of a counter that did not exist before.
    """

    name: str
    labels: tuple[str, ...]
    meaning: str
    count: Callable[[Event], Iterable[Sample]]
    expected: Callable[[ServiceSnapshot], Iterable[tuple[str, ...]]] = _list_no_samples


SECONDS_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


@dataclass(frozen=True)
class Histogram:
    """A metric that shows the distribution of values of events.

    `observe` returns the values of an event, by label values. `buckets` are the upper bounds of the histogram's
    buckets. `expected` is as in Counter.
    """

    name: str
    labels: tuple[str, ...]
    meaning: str
    observe: Callable[[Event], Iterable[Sample]]
    expected: Callable[[ServiceSnapshot], Iterable[tuple[str, ...]]] = _list_no_samples
    buckets: tuple[float, ...] = field(default=SECONDS_BUCKETS)


# Gauges


def _read_from_service(read: Callable[[ServiceSnapshot], float]) -> Callable[[ServiceSnapshot], Iterable[Sample]]:
    """Builds a gauge's `read` function that returns one value for the whole service."""
    return lambda snapshot: (((), read(snapshot)),)


def _get_label_names(overview: TableOverview) -> tuple[str, str]:
    return (str(overview.table), str(overview.layer))


def _read_from_tables(
    read: Callable[[TableOverview, datetime], float | None],
) -> Callable[[ServiceSnapshot], Iterable[Sample]]:
    """Builds a gauge's `read` function that returns a value for each table.

    Tables for which the argument `read` returns None are left out.
    """

    def list_samples(snapshot: ServiceSnapshot) -> Iterator[Sample]:
        for overview in snapshot.tables:
            value = read(overview, snapshot.now)
            if value is not None:
                yield _get_label_names(overview), value

    return list_samples


def _read_from_built_tables(read: Callable[[TableOverview], float]) -> Callable[[ServiceSnapshot], Iterable[Sample]]:
    """Builds a gauge's `read` function that returns a value for each table that exists and has a known version."""
    return _read_from_tables(
        lambda overview, _: None if overview.state == "missing" or not overview.version else read(overview)
    )


def _compute_age(now: datetime, since: datetime | None) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())


def _compute_staleness(overview: TableOverview, now: datetime) -> float | None:
    return None if overview.freshness is None else _compute_age(now, overview.freshness.as_of)


def _get_allowed_lag(overview: TableOverview, _: datetime) -> float | None:
    return None if overview.freshness is None else overview.freshness.allowed_lag_seconds


def _to_timestamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _list_table_states(snapshot: ServiceSnapshot) -> Iterator[Sample]:
    for overview, state in product(snapshot.tables, get_args(TableState)):
        yield (*_get_label_names(overview), state), float(overview.state == state)


def _count_tables_by_state(snapshot: ServiceSnapshot) -> Iterator[Sample]:
    counts = Counts((overview.layer, overview.state) for overview in snapshot.tables)
    for layer, state in product(sorted({overview.layer for overview in snapshot.tables}), get_args(TableState)):
        yield (str(layer), state), float(counts[layer, state])


def _read_from_readers(number: Literal["commits", "rows"]) -> Callable[[ServiceSnapshot], Iterable[Sample]]:
    def list_samples(snapshot: ServiceSnapshot) -> Iterator[Sample]:
        for overview in snapshot.tables:
            for lag in overview.readers:
                yield (*_get_label_names(overview), lag.model), float(lag.commits if number == "commits" else lag.rows)

    return list_samples


def _read_from_ingested(
    read: Callable[[IngestionState, datetime], float | None],
) -> Callable[[ServiceSnapshot], Iterable[Sample]]:
    def list_samples(snapshot: ServiceSnapshot) -> Iterator[Sample]:
        for overview in snapshot.tables:
            value = None if overview.ingestion is None else read(overview.ingestion, snapshot.now)
            if overview.ingestion is not None and value is not None:
                yield (*_get_label_names(overview), overview.ingestion.source), value

    return list_samples


def _sample_ingestion_failures(snapshot: ServiceSnapshot) -> Iterator[Sample]:
    """Yields 1 for each ingested table that has an error, and 0 for the others, also for tables not created yet."""
    for overview in snapshot.tables:
        if overview.source:
            yield (*_get_label_names(overview), overview.source), float(bool(overview.error))


def _read_from_sources(read: Callable[[IngestionState], float]) -> Callable[[ServiceSnapshot], Iterable[Sample]]:
    """Builds a gauge's `read` function that returns for each source the highest value of its tables."""

    def list_samples(snapshot: ServiceSnapshot) -> Iterator[Sample]:
        values: dict[str, float] = {}
        for overview in (overview.ingestion for overview in snapshot.tables if overview.ingestion is not None):
            values[overview.source] = max(read(overview), values.get(overview.source, 0.0))
        return (((source,), value) for source, value in values.items())

    return list_samples


def _count_jobs_by_state(snapshot: ServiceSnapshot) -> Iterator[Sample]:
    counts: Counts[tuple[str, str]] = Counts((job.kind, job.state) for job in snapshot.jobs)
    for kind, state in product(get_args(JobKind), ("waiting", "running")):
        yield (kind, state), float(counts[kind, state])


def _find_longest_running(snapshot: ServiceSnapshot) -> Iterator[Sample]:
    for kind in get_args(JobKind):
        ages = [
            _compute_age(snapshot.now, job.began_at)
            for job in snapshot.jobs
            if (job.kind, job.state) == (kind, "running")
        ]
        yield (kind,), max((age for age in ages if age is not None), default=0.0)


def _sum_planned_upkeep(read: Callable[[Upkeep], float]) -> Callable[[ServiceSnapshot], Iterable[Sample]]:
    def list_samples(snapshot: ServiceSnapshot) -> Iterator[Sample]:
        for operation in ("compact", "expire"):
            yield (operation,), sum(read(upkeep) for upkeep in snapshot.upkeep if upkeep.operation == operation)

    return list_samples


def _list_last_look(snapshot: ServiceSnapshot) -> Iterator[Sample]:
    if snapshot.state.looked_at is not None:
        yield (), snapshot.state.looked_at.timestamp()


GAUGES = (
    # The service.
    Gauge(
        "arctic_service_info",
        ("project", "version"),
        "Always 1; tells project and version.",
        lambda snapshot: (((snapshot.state.project, snapshot.state.version), 1.0),),
    ),
    Gauge(
        "arctic_service_start_time_seconds",
        (),
        "When the service started, in seconds since 1970.",
        _read_from_service(lambda snapshot: snapshot.state.started_at.timestamp()),
    ),
    Gauge(
        "arctic_service_role",
        ("role",),
        "1 for the role that the service has, 0 for the others: starting, leads, stands_by or ending.",
        lambda snapshot: (((role,), float(snapshot.state.role == role)) for role in _ROLES),
    ),
    Gauge(
        "arctic_service_paused",
        (),
        "1 while all work is paused.",
        _read_from_service(lambda snapshot: float(snapshot.state.is_paused)),
    ),
    Gauge(
        "arctic_service_last_look_timestamp_seconds",
        (),
        "When the service last looked where tables stand, in seconds since 1970.",
        _list_last_look,
    ),
    Gauge(
        "arctic_service_part_failing",
        ("part",),
        "1 for each part of the service that does not work now, such as the catalog.",
        lambda snapshot: (((part,), 1.0) for part in sorted(snapshot.state.errors)),
    ),
    # Tables.
    Gauge("arctic_tables", ("layer", "state"), "Tables by layer and state.", _count_tables_by_state),
    Gauge(
        "arctic_table_state", (*_TABLE, "state"), "1 for the state that a table has, 0 for others.", _list_table_states
    ),
    Gauge(
        "arctic_table_stale_seconds",
        _TABLE,
        "How long ago the state of its sources is that a table shows, through all layers; none if that is not known.",
        _read_from_tables(_compute_staleness),
    ),
    Gauge(
        "arctic_table_target_lag_seconds",
        _TABLE,
        "How old the rows of a table may be: its target_lag, after those of the tables above it.",
        _read_from_tables(_get_allowed_lag),
    ),
    Gauge(
        "arctic_table_last_commit_timestamp_seconds",
        _TABLE,
        "Time of a table's newest commit, in seconds since 1970.",
        _read_from_tables(lambda overview, _: _to_timestamp(overview.changed_at)),
    ),
    Gauge(
        "arctic_table_last_refresh_timestamp_seconds",
        _TABLE,
        "Time of the newest refresh that found a table up to date, in seconds since 1970.",
        _read_from_tables(lambda overview, _: _to_timestamp(overview.refreshed_at)),
    ),
    Gauge("arctic_table_rows", _TABLE, "Rows of a table.", _read_from_built_tables(lambda overview: overview.rows)),
    Gauge(
        "arctic_table_files", _TABLE, "Data files of a table.", _read_from_built_tables(lambda overview: overview.files)
    ),
    Gauge(
        "arctic_table_size_bytes",
        _TABLE,
        "Size of a table's data files.",
        _read_from_built_tables(lambda overview: overview.bytes),
    ),
    Gauge(
        "arctic_table_hash_nodes",
        _TABLE,
        "Hash nodes of a table.",
        _read_from_built_tables(lambda overview: overview.nodes),
    ),
    Gauge(
        "arctic_table_versions",
        _TABLE,
        "Versions of a table that are kept.",
        _read_from_built_tables(lambda overview: overview.versions),
    ),
    Gauge(
        "arctic_table_unmerged_commits",
        _TABLE,
        "Commits of the change table that are not merged into the base.",
        _read_from_built_tables(lambda overview: overview.unmerged_commits),
    ),
    Gauge(
        "arctic_table_unmerged_rows",
        _TABLE,
        "Rows of the change table that are not merged into the base.",
        _read_from_built_tables(lambda overview: overview.unmerged_rows),
    ),
    Gauge(
        "arctic_table_recent_rows",
        _TABLE,
        "Rows of a table that were changed within the last minute.",
        _read_from_built_tables(lambda overview: overview.recent_rows),
    ),
    Gauge(
        "arctic_table_waste_bytes",
        _TABLE,
        "Bytes that readers of a table read in vain until the upkeep that is due is done.",
        _read_from_built_tables(lambda overview: overview.waste_bytes),
    ),
    Gauge(
        "arctic_reader_lag_commits",
        (*_TABLE, "reader"),
        "Commits of a table that a model has yet to read.",
        _read_from_readers("commits"),
    ),
    Gauge(
        "arctic_reader_lag_rows",
        (*_TABLE, "reader"),
        "Rows of a table that a model has yet to read.",
        _read_from_readers("rows"),
    ),
    # Ingestion.
    Gauge(
        "arctic_ingestion_lag_seconds",
        (*_TABLE, "source"),
        "How far an ingested table is behind its source.",
        _read_from_ingested(lambda ingestion, now: _compute_age(now, ingestion.as_of)),
    ),
    Gauge(
        "arctic_ingestion_failing",
        (*_TABLE, "source"),
        "1 for an ingested table whose ingestion fails, until a batch has succeeded.",
        _sample_ingestion_failures,
    ),
    Gauge(
        "arctic_ingestion_running",
        _OF_SOURCE,
        "1 while a process ingests a source.",
        _read_from_sources(lambda ingestion: float(ingestion.is_running)),
    ),
    Gauge(
        "arctic_ingestion_dead_letters",
        _OF_SOURCE,
        "Events of a source that could not be applied and wait for a replay.",
        _read_from_sources(lambda ingestion: ingestion.dead_letters),
    ),
    # Work.
    Gauge("arctic_jobs", ("kind", "state"), "Jobs that wait or run.", _count_jobs_by_state),
    Gauge(
        "arctic_job_running_seconds",
        ("kind",),
        "How long the longest running job has been running.",
        _find_longest_running,
    ),
    Gauge(
        "arctic_upkeep_planned",
        ("operation",),
        "Tables for which upkeep is planned.",
        _sum_planned_upkeep(lambda _: 1.0),
    ),
    Gauge(
        "arctic_upkeep_planned_bytes",
        ("operation",),
        "Bytes that the planned upkeep will write.",
        _sum_planned_upkeep(lambda upkeep: upkeep.bytes),
    ),
)


# Counters and histograms


def _get_ended_job(event: Event) -> Job | None:
    job = event.data
    return job if event.kind == "job" and job.state in ENDED else None


def _count_ended_jobs(count: Callable[[Job], Iterable[Sample]]) -> Callable[[Event], Iterable[Sample]]:
    """Returns a function that applies `count` to the job of an event; without samples unless the job has ended."""

    def list_samples(event: Event) -> Iterable[Sample]:
        job = _get_ended_job(event)
        return () if job is None else count(job)

    return list_samples


def _count_refreshes(count: Callable[[Job], Iterable[Sample]]) -> Callable[[Event], Iterable[Sample]]:
    return _count_ended_jobs(lambda job: count(job) if job.kind == "refresh" else ())


def _list_written_bytes(job: Job) -> Iterator[Sample]:
    if job.kind != "refresh":
        yield from (((str(table), job.name), float(job.bytes)) for table in job.tables[:1] if job.bytes)


def _list_wait_seconds(job: Job) -> Iterator[Sample]:
    if job.began_at is not None:
        yield (job.kind,), max(0.0, (job.began_at - job.queued_at).total_seconds())


def _count_batches(count: Callable[[Mapping[str, Any]], Iterable[Sample]]) -> Callable[[Event], Iterable[Sample]]:
    """Returns a function that applies `count` to the data of an event of an ingested batch; else it returns no samples.

    The data has the batch's `source`, the number of its `events` and of its `dead` ones, and rows by action of
    `tables`.
    """
    return lambda event: count(event.data) if event.kind == "batch" else ()


def _list_ingested_rows(batch: Mapping[str, Any]) -> Iterator[Sample]:
    for table, rows in batch["tables"].items():
        yield from (((batch["source"], table, action), float(number)) for action, number in rows.items())


def _list_sources(snapshot: ServiceSnapshot) -> Iterable[tuple[str, ...]]:
    return {(overview.ingestion.source,): None for overview in snapshot.tables if overview.ingestion is not None}


def _list_models(snapshot: ServiceSnapshot) -> list[str]:
    return [str(overview.table) for overview in snapshot.tables if overview.kind == "model"]


COUNTERS = (
    Counter(
        "arctic_refreshes_total",
        ("table", "outcome"),
        "Refreshes that ended, by outcome: done, failed or cancelled.",
        _count_refreshes(lambda job: (((str(table), job.state), 1.0) for table in job.tables)),
        lambda snapshot: product(_list_models(snapshot), sorted(ENDED)),
    ),
    Counter(
        "arctic_refresh_seconds_total",
        ("table",),
        "Seconds that refreshes of a table took.",
        _count_refreshes(lambda job: (((str(table),), job.seconds) for table in job.tables)),
        lambda snapshot: ((table,) for table in _list_models(snapshot)),
    ),
    Counter(
        "arctic_refreshed_rows_total",
        ("table", "action"),
        "Rows that refreshes changed, by action: insert, update or delete.",
        _count_refreshes(
            lambda job: (((str(job.tables[0]), action), float(rows)) for action, rows in job.rows.items())
        ),
        lambda snapshot: product(_list_models(snapshot), _ACTIONS),
    ),
    Counter(
        "arctic_jobs_ended_total",
        ("kind", "outcome"),
        "Jobs that ended, by kind (refresh, ingest, upkeep, operation, run, test) and outcome.",
        _count_ended_jobs(lambda job: (((job.kind, job.state), 1.0),)),
        lambda _: product(get_args(JobKind), sorted(ENDED)),
    ),
    Counter(
        "arctic_upkeep_bytes_total",
        ("table", "operation"),
        "Bytes that upkeep and operations wrote, by operation.",
        _count_ended_jobs(_list_written_bytes),
    ),
    Counter(
        "arctic_ingested_rows_total",
        ("source", "source_table", "action"),
        "Rows that ingestion changed, by the name of the table in its source and by action.",
        _count_batches(_list_ingested_rows),
    ),
    Counter(
        "arctic_ingested_events_total",
        _OF_SOURCE,
        "Events of a source that ingestion read.",
        _count_batches(lambda batch: (((batch["source"],), float(batch["events"])),)),
        _list_sources,
    ),
    Counter(
        "arctic_ingested_dead_events_total",
        _OF_SOURCE,
        "Events of a source that could not be applied, and became dead letters.",
        _count_batches(lambda batch: (((batch["source"],), float(batch["dead"])),)),
        _list_sources,
    ),
    Counter(
        "arctic_events_total", ("kind",), "Events of the service, by kind.", lambda snapshot: (((snapshot.kind,), 1.0),)
    ),
)
MISSED = Counter(
    "arctic_events_missed_total",
    (),
    "Events that came too fast to be counted here; counters lack what they told.",
    lambda _: (),
)

HISTOGRAMS = (
    Histogram(
        "arctic_job_duration_seconds",
        ("kind",),
        "How long jobs ran; those of kind refresh are the refreshes.",
        _count_ended_jobs(lambda job: (((job.kind,), job.seconds),) if job.began_at is not None else ()),
        lambda _: ((kind,) for kind in get_args(JobKind)),
    ),
    Histogram(
        "arctic_job_wait_seconds",
        ("kind",),
        "How long jobs waited in the queue.",
        _count_ended_jobs(_list_wait_seconds),
        lambda _: ((kind,) for kind in get_args(JobKind)),
    ),
)

METRICS: tuple[Gauge | Counter | Histogram, ...] = (*GAUGES, *COUNTERS, MISSED, *HISTOGRAMS)


def describe_metrics() -> str:
    """Returns the Markdown table of all metrics in docs/reference/metrics.md."""
    kinds = {Gauge: "gauge", Counter: "counter", Histogram: "histogram"}
    rows = (
        f"| `{metric.name}` | {kinds[type(metric)]} | {', '.join(f'`{name}`' for name in metric.labels)} "
        f"| {metric.meaning} |"
        for metric in METRICS
    )
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]).replace("|  |", "| |")
