"""Every table at one glance: what the catalog tells of it, and what the service knows of its refreshes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.inspect import Ingestion
from arctic_runtime.service.live import IngestionState, Lag, TableKind, TableOverview, TableState
from arctic_runtime.service.observed_tables import ObservedTable, moment
from arctic_runtime.service.schedules import Scheduled

Reads = Mapping[TableName, Collection[TableName]]


@dataclass(frozen=True)
class Refreshing:
    """What the service knows of a model's refreshes.

    `refreshed_at` is when the newest one that succeeded ended. `error` is why the newest failed, and `retry_at` when it
    is tried again; `held_by` is a model above that failed. A delayed model may be as old as it is.
    """

    is_running: bool = False
    is_delayed: bool = False
    refreshed_at: datetime | None = None
    error: str = ""
    retry_at: datetime | None = None
    held_by: TableName | None = None


@dataclass(frozen=True)
class IngestionRun:
    """Whether this service ingests a source now, and why it does not."""

    is_running: bool
    error: str = ""


@dataclass(frozen=True)
class Shown:
    """Everything that overviews are made of, at a moment.

    `reads` are the tables that each model reads; `models` are those of the project, ingested and landing tables
    included. `waste` is by table, `ingestions` by source. `scheduled` are the models that dbt runs, and `readable` the
    tables and views that there are.
    """

    now: datetime
    reads: Reads
    models: Mapping[TableName, Model]
    observed: Mapping[TableName, ObservedTable]
    refreshing: Mapping[TableName, Refreshing] = field(default_factory=dict)
    ingestions: Mapping[str, IngestionRun] = field(default_factory=dict)
    waste: Mapping[TableName, int] = field(default_factory=dict)
    paused: Paused = field(default_factory=Paused)
    flow_seconds: float = 60.0
    scheduled: Mapping[TableName, Scheduled] = field(default_factory=dict)
    readable: Collection[TableName] = ()

    def read_by(self, name: TableName) -> Collection[TableName]:
        """What a model reads, whoever runs it."""
        return self.reads[name] if name in self.reads else self.scheduled[name].reads if name in self.scheduled else ()


def overviews(shown: Shown) -> list[TableOverview]:
    """Every table, layer by layer, and by name within a layer."""
    layers = _layers(shown)
    stale = _stale_since(shown, layers)
    readers = _readers(shown)
    found = [_overview(name, layer, shown, stale, readers.get(name, ())) for name, layer in layers.items()]
    return sorted(found, key=lambda of: (of.layer, of.table))


def _layers(shown: Shown) -> dict[TableName, int]:
    """Table → its layer; in an order in which each comes after all that it reads."""
    found: dict[TableName, int] = {}

    def place(name: TableName) -> int:
        if name not in found:
            above = [place(of) for of in sorted(shown.read_by(name)) if of != name]
            found[name] = max(above, default=-1) + 1
        return found[name]

    for name in sorted({*shown.reads, *shown.models, *shown.scheduled}):
        place(name)
    return found


def _readers(shown: Shown) -> dict[TableName, tuple[Lag, ...]]:
    """Table → how far each of its readers is behind."""
    found: dict[TableName, list[Lag]] = {}
    for reader, tables in shown.reads.items():
        own = shown.observed.get(reader)
        for table in tables:
            source = shown.observed.get(table)
            if own is None or source is None or str(table) not in own.offsets:
                continue
            left = source.after(own.offsets[str(table)])
            found.setdefault(table, []).append(Lag(str(reader), len(left), sum(of.rows for of in left)))
    return {table: tuple(sorted(lags, key=lambda lag: lag.model)) for table, lags in found.items()}


def _stale_since(shown: Shown, order: Collection[TableName]) -> dict[TableName, datetime]:
    """Table → when the oldest change came that it does not show; tables that show all are left out."""
    found: dict[TableName, datetime] = {}
    for name in order:
        moments = list(_unread(name, shown))
        moments += [found[above] for above in shown.reads.get(name, ()) if above in found and above != name]
        if moments:
            found[name] = min(moments)
    return found


def _unread(name: TableName, shown: Shown) -> Iterator[datetime]:
    """When each table that a model reads got the oldest change that the model has not read."""
    own = shown.observed.get(name)
    for table in shown.reads.get(name, ()) if own is not None else ():
        source = shown.observed.get(table)
        left = source.after(own.offsets.get(str(table))) if source and own else ()
        if left:
            yield moment(left[0].at_ms)


def _overview(
    name: TableName, layer: int, shown: Shown, stale: Mapping[TableName, datetime], readers: tuple[Lag, ...]
) -> TableOverview:
    model, observed = shown.models.get(name), shown.observed.get(name)
    refreshing = shown.refreshing.get(name, Refreshing())
    status = observed.status if observed else None
    ingestion = _ingestion(status.ingestion, shown) if status and status.ingestion else None
    kind = _kind(name, model, shown)
    return TableOverview(
        table=name,
        kind=kind,
        state=_state(name, kind, shown, refreshing, ingestion, name in stale),
        layer=layer,
        reads=tuple(sorted(of for of in shown.read_by(name) if of != name)),
        version=status.version if status else "",
        changed_at=moment(observed.commits[-1].at_ms) if observed and observed.commits else None,
        refreshed_at=refreshing.refreshed_at,
        stale_since=stale.get(name),
        target_lag_seconds=float(model.config.target_lag) if model else 0.0,
        rows=status.rows if status else 0,
        files=status.files if status else 0,
        bytes=status.bytes if status else 0,
        nodes=status.nodes if status else 0,
        versions=status.versions if status else 0,
        unmerged_commits=status.unmerged_commits if status else 0,
        unmerged_rows=status.unmerged_rows if status else 0,
        recent_rows=observed.rows_since(1000 * (shown.now.timestamp() - shown.flow_seconds)) if observed else 0,
        waste_bytes=shown.waste.get(name, 0),
        readers=readers,
        ingestion=ingestion,
        error=refreshing.error or (ingestion.error if ingestion else ""),
        retry_at=refreshing.retry_at,
        held_by=refreshing.held_by,
        schedule=shown.scheduled[name].cron if name in shown.scheduled else "",
    )


def _kind(name: TableName, model: Model | None, shown: Shown) -> TableKind:
    if model is None:
        return "scheduled" if name in shown.scheduled else "source"
    if model.ingested_from is not None:
        return "ingested"
    return "landing" if model.is_landing and name not in shown.reads else "model"


def _state(
    name: TableName,
    kind: TableKind,
    shown: Shown,
    refreshing: Refreshing,
    ingestion: IngestionState | None,
    is_stale: bool,
) -> TableState:
    if name not in shown.observed and not (kind == "scheduled" and name in shown.readable):
        return "refreshing" if refreshing.is_running else "failed" if refreshing.error else "missing"
    if shown.paused.everything or str(name) in shown.paused.tables:
        return "paused"
    if kind == "ingested":
        return "unknown" if ingestion is None else _state_of_ingested(ingestion)
    if kind == "scheduled":
        return "refreshing" if refreshing.is_running else "failed" if refreshing.error else "unknown"
    if kind != "model":
        return "unknown"
    if refreshing.is_running:
        return "refreshing"
    if refreshing.error:
        return "failed"
    if refreshing.held_by is not None and shown.refreshing.get(refreshing.held_by, Refreshing()).error:
        return "held"
    if not is_stale:
        return "fresh"
    return "delayed" if refreshing.is_delayed else "behind"


def _state_of_ingested(ingestion: IngestionState) -> TableState:
    if ingestion.error:
        return "failed"
    return "fresh" if ingestion.is_running else "unknown"


def _ingestion(of: Ingestion, shown: Shown) -> IngestionState:
    run = shown.ingestions.get(of.source, IngestionRun(False))
    as_of = datetime.fromisoformat(of.as_of) if of.as_of else None
    lag = None if as_of is None else max(0.0, (shown.now - as_of).total_seconds())
    return IngestionState(of.source, of.table, of.position, as_of, lag, of.dead_letters, run.is_running, run.error)
