"""The `LiveService` of a running service: its tables, sources and jobs, and the upkeep that it plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone

from arctic_runtime.model.names import TableName
from arctic_runtime.service.activity import Activity
from arctic_runtime.service.cron_schedules import Scheduled, name_schedule_part
from arctic_runtime.service.project import ProjectSource
from arctic_runtime.service.shared_state import list_named_tables
from arctic_runtime.service.upkeep import UpkeepRunner
from arctic_runtime.service.view.live_data import Job, Requests, ServiceState, SourceOverview, TableOverview, Upkeep
from arctic_runtime.service.view.overviews import (
    IngestionRun,
    ObservedTables,
    OverviewInputs,
    Refreshing,
    build_overviews,
    is_news,
)

THIS_SERVICE = "this service"


def build_source_overviews(
    sources: Iterable[ProjectSource], overviews: Iterable[TableOverview], runs: Mapping[str, IngestionRun]
) -> list[SourceOverview]:
    """Computes the overviews of `sources`; `runs` are the ingestions of this service by source."""
    tables_by_source: dict[str, list[TableOverview]] = {}
    for overview in overviews:
        tables_by_source.setdefault(overview.source, []).append(overview)
    return [
        _build_overview(source, tables_by_source.get(source.name, []), runs.get(source.name, IngestionRun()))
        for source in sources
    ]


def _build_overview(source: ProjectSource, tables: Sequence[TableOverview], run: IngestionRun) -> SourceOverview:
    states = [table.ingestion for table in tables if table.ingestion is not None]
    times = [state.as_of for state in states if state.as_of is not None]
    errors = [*(state.error for state in states), run.failure.message if run.failure is not None else ""]
    processes = [*(state.ingested_by for state in states), THIS_SERVICE if run.is_running else ""]
    return SourceOverview(
        source=source.name,
        connection=source.connection,
        is_running=run.is_running or any(state.is_running for state in states),
        ingested_by=next(filter(None, processes), ""),
        tables=len(tables),
        loaded_tables=len(times),
        position=next((state.position for state in states if state.position), ""),
        as_of=min(times, default=None),
        lag_seconds=max((state.lag_seconds for state in states if state.lag_seconds is not None), default=None),
        dead_letters=max((state.dead_letters for state in states), default=0),
        error=next(filter(None, errors), ""),
    )


class LiveWarehouse:
    """Live state of the tables, jobs and upkeep of a service, even while another service leads.

    Implements `LiveService` of `live_data.py`.
    """

    def __init__(self, activity: Activity, upkeep: UpkeepRunner, requests: Requests) -> None:
        self._activity = activity
        self._upkeep = upkeep
        self._requests = requests
        self._shared = activity.shared
        self._thresholds = activity.shared.reader.thresholds
        self._observed = ObservedTables(activity.shared.reader, activity.shared.heads)
        self._tables: dict[TableName, TableOverview] = {}
        self._sources: Sequence[SourceOverview] = ()
        self._last_overviews: dict[TableName, TableOverview] = {}
        self.events = activity.shared.events

    @property
    def requests(self) -> Requests:
        return self._requests

    def observe_tables(self) -> Collection[TableName]:
        """Reads the changed tables, appends events for changed overviews, and returns the names of the changed tables.

        Raises CatalogError if the catalog does not answer.
        """
        models, reads, sources = self._shared.models, self._shared.list_reads(), self._shared.sources
        scheduled = {model.table: model for model in self._shared.scheduled if model.table not in models}
        others = {table for tables in reads.values() for table in tables} | scheduled.keys()
        others = others.union(*(model.reads for model in scheduled.values()), *(source.tables for source in sources))
        others -= models.keys()
        moved = self._observed.observe_moved(models, others)
        self._shared.readable = self._observed.readable
        self._shared.held = self._observed.list_held(sources)
        now = datetime.now(timezone.utc)
        by_dbt = {table: self._describe_last_run(model) for table, model in scheduled.items()}
        runs = self._activity.list_ingestions()
        shown = OverviewInputs(
            now,
            reads,
            models,
            self._observed.tables,
            {**self._activity.list_refreshing(now), **by_dbt},
            runs,
            self._upkeep.sum_waste(),
            self._shared.paused,
            self._thresholds.service.flow_seconds,
            scheduled,
            self._observed.readable,
            self._thresholds.ingest.confirmed_seconds,
            sources,
        )
        self._tables = {overview.table: overview for overview in build_overviews(shown)}
        self._sources = build_source_overviews(sources, self._tables.values(), runs)
        self._shared.record_check(now)
        self._publish_changes()
        return moved

    def _publish_changes(self) -> None:
        """Appends an event for each changed overview; if only its `as_of` has changed, does so at intervals."""
        self._last_overviews = {
            table: earlier_overview for table, earlier_overview in self._last_overviews.items() if table in self._tables
        }
        for table, overview in self._tables.items():
            if is_news(self._last_overviews.get(table), overview, self._thresholds.service.as_of_event_seconds):
                self._last_overviews[table] = overview
                self.events.append_event("table", overview)

    def _describe_last_run(self, model: Scheduled) -> Refreshing:
        """Describes the last dbt run of a scheduled model as if it were a refresh."""
        running = (job for job in self._shared.jobs.list_jobs() if job.kind == "run" and job.state == "running")
        return Refreshing(
            any(model.table in job.tables for job in running),
            error=self._shared.get_state().errors.get(name_schedule_part(model.name), ""),
        )

    def get_state(self) -> ServiceState:
        return self._shared.get_state()

    def list_tables(self) -> Sequence[TableOverview]:
        return list(self._tables.values())

    def list_sources(self) -> Sequence[SourceOverview]:
        return self._sources

    def find_table(self, name: str) -> TableOverview | None:
        known = self._tables
        matches = list_named_tables(name, known)
        return known[matches[0]] if len(matches) == 1 else None

    def list_jobs(self) -> Sequence[Job]:
        return self._shared.jobs.list_jobs()

    def find_job(self, number: str) -> Job | None:
        return self._shared.jobs.find_job(number)

    def list_upkeep(self) -> Sequence[Upkeep]:
        return self._upkeep.list_planned()
