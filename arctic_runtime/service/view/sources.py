"""Computes overviews of ingested sources, from those of their tables and from the ingestions of this service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arctic_runtime.service.project_source import ProjectSource
from arctic_runtime.service.view.live_data import SourceOverview, TableOverview
from arctic_runtime.service.view.overviews import IngestionRun

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
