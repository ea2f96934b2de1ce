"""Observes all tables in the catalog, and computes their overviews from that and the state of refreshes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from arctic_runtime.catalog.heads import SharedHeads
from arctic_runtime.catalog.observation.table_facts import observe_facts
from arctic_runtime.catalog.observation.table_size import UnmergedRows
from arctic_runtime.catalog.observation.tables import observe_progress
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness, NoRefreshReason, OriginStatus, TableFacts
from arctic_runtime.model.sources.ingestion import Failure, time_of
from arctic_runtime.model.sources.positions import ParsePosition, keep_opaque
from arctic_runtime.model.table import Model
from arctic_runtime.operations.inspect import IngestionStatus, Status, read_status
from arctic_runtime.plan.freshness import FreshnessPlan, read_advice, read_first_line
from arctic_runtime.service.cron_schedules import Scheduled
from arctic_runtime.service.project import ProjectSource
from arctic_runtime.service.refreshing.model_records import Heads
from arctic_runtime.service.refreshing.source_relations import list_relations
from arctic_runtime.service.view.live_data import IngestionState, Lag, TableKind, TableOverview, TableState
from arctic_runtime.thresholds.ingest import IngestThresholds


@dataclass(frozen=True)
class ObservedTable:
    """State of a table, read from its newest commits; `status` is None for a table that is not a model's."""

    facts: TableFacts
    status: Status | None = None

    @property
    def changed_at(self) -> datetime | None:
        """The time of the newest commit that changed rows; None if there is none."""
        return time_of(self.facts.with_rows[-1].at_ms) if self.facts.with_rows else None

    def count_rows_since(self, at_ms: float) -> int:
        """Number of rows that were changed since `at_ms`, in milliseconds since 1970."""
        return sum(commit.rows for commit in reversed(self.facts.with_rows) if commit.at_ms >= at_ms)


class ObservedTables:
    """Caches the state of tables by name; `observe_moved` reads a table again if it has changed."""

    def __init__(self, reader: CatalogReader, heads: SharedHeads) -> None:
        self._reader = reader
        self._shared_heads = heads
        self._counts = UnmergedRows(reader)
        self._heads: Heads = {}
        self.tables: dict[TableName, ObservedTable] = {}
        self.readable: frozenset[TableName] = frozenset()
        """Names under which a table or view exists.

        While a table is being created, only its helper relations exist, so it is not among these names yet.
        """

    def observe_moved(self, models: Mapping[TableName, Model], others: Iterable[TableName]) -> set[TableName]:
        """Reads the tables in `models` and `others` that have changed since the last call, and returns their names.

        Tables that are in neither are removed. Raises CatalogError if the catalog does not answer.
        """
        names = {*models, *others}
        relations = {name: _list_relations(name, models.get(name)) for name in names}
        age = self._reader.thresholds.service.poll_seconds
        heads = self._shared_heads.get_recent(
            "tables", {table_name for observed in relations.values() for table_name in observed}, age
        ).heads
        moved = {
            name
            for name, table_name in relations.items()
            if name not in self.tables or any(heads.get(one) != self._heads.get(one) for one in table_name)
        }
        tables_kept = {
            name: table_name for name, table_name in self.tables.items() if name in names and name not in moved
        }
        for name in moved:
            observed = None
            if any(relation in heads for relation in relations[name]):
                with suppress(ArcticError):
                    observed = self._observe_table(name, models.get(name))
            if observed is not None:
                tables_kept[name] = observed
        self.tables, self._heads = tables_kept, heads
        self.readable = frozenset(names & heads.keys())
        return moved & tables_kept.keys()

    def list_held(self, sources: Iterable[ProjectSource]) -> frozenset[TableName]:
        """Lists the tables of sources that do not exist and wait to be loaded for the first time.

        Reads the progress of a source only if a table of it does not exist.
        """
        held: set[TableName] = set()
        for source in sources:
            absent = {table: name for table, name in source.names.items() if table not in self.readable}
            progress = observe_progress(self._reader, source.dead_letters) if absent and source.dead_letters else None
            waits = progress.progress.waits if progress is not None else {}
            held |= {table for table, name in absent.items() if name in waits}
        return frozenset(held)

    def _observe_table(self, name: TableName, model: Model | None) -> ObservedTable | None:
        facts = observe_facts(self._reader, name, model)
        if facts is None or model is None or model.is_landing:
            return None if facts is None else ObservedTable(facts)
        return ObservedTable(facts, read_status(self._reader, model, (), self._counts))


def _list_relations(name: TableName, model: Model | None) -> tuple[TableName, ...]:
    """Returns the relations whose versions show a change of the table `name`.

    These are its own relations, and for an ingested table the dead letter table, which stores the source's progress.
    """
    source = model.source if model else None
    return (*list_relations(name), *((source.dead_letters,) if source else ()))


Reads = Mapping[TableName, Collection[TableName]]


@dataclass(frozen=True)
class Refreshing:
    """State of a model's refreshes in the service."""

    is_running: bool = False
    """Whether a refresh is running."""

    refreshed_at: datetime | None = None
    """End of the newest successful refresh."""

    error: str = ""
    """Reason for which the newest refresh failed; empty if it did not."""

    retry_at: datetime | None = None
    """Time of the next attempt."""

    held_by: TableName | None = None
    """Failed upstream model, because of which this model is not refreshed."""


@dataclass(frozen=True)
class IngestionRun:
    """Whether this service ingests a source at present, and its last failure, which is kept until a batch succeeds."""

    is_running: bool = False
    failure: Failure | None = None


def to_part_name(source: str) -> str:
    """Returns the name of a source's ingestion as a part of the service, under which its errors are shown."""
    return f"ingest {source}"


@dataclass(frozen=True)
class OverviewInputs:
    """All inputs from which overviews of tables are computed."""

    now: datetime
    reads: Reads
    """Tables that each model reads."""

    models: Mapping[TableName, Model]
    """Models of the project, including ingested and landing tables."""

    observed: Mapping[TableName, ObservedTable]
    refreshing: Mapping[TableName, Refreshing] = field(default_factory=dict)
    ingestions: Mapping[str, IngestionRun] = field(default_factory=dict)
    """State of ingestion by source."""

    waste: Mapping[TableName, int] = field(default_factory=dict)
    """Number of bytes that readers read in vain, by table."""

    paused: Paused = field(default_factory=Paused)
    flow_seconds: float = 60.0
    """Period of `recent_rows`."""

    scheduled: Mapping[TableName, Scheduled] = field(default_factory=dict)
    """Models that dbt runs at scheduled times."""

    readable: Collection[TableName] = ()
    """Existing tables and views."""

    confirmed_seconds: float = IngestThresholds.confirmed_seconds
    """Seconds for which the tables of an idle source count as up to date after a check of the source."""

    sources: Collection[ProjectSource] = ()
    """Ingested sources, whose tables need not exist yet."""

    @cached_property
    def source_names(self) -> Mapping[TableName, str]:
        """Names of the sources of ingested tables, by table."""
        declared = {table: source.name for source in self.sources for table in source.tables}
        known = {name: model.source.name for name, model in self.models.items() if model.ingested_from and model.source}
        return declared | known

    def read_by(self, name: TableName) -> Collection[TableName]:
        """Returns the tables that the model `name` reads, whether the service or dbt runs the model."""
        writer = self.find_writer(name)
        if writer in self.reads:
            return self.reads[writer]
        return self.scheduled[writer].reads if writer in self.scheduled else ()

    def find_writer(self, name: TableName) -> TableName:
        """Returns the model whose refreshes write the table: for a quarantine that of the tested table, else itself."""
        model = self.models.get(name)
        return model.tested_table if model is not None and model.tested_table is not None else name

    def get_refreshing(self, name: TableName) -> Refreshing:
        return self.refreshing.get(self.find_writer(name), Refreshing())


@dataclass(frozen=True)
class _Derived:
    """Facts about tables, by name, with the computed freshness of tables (`plan`) and the lags of their `readers`."""

    facts: Mapping[str, TableFacts]
    plan: FreshnessPlan
    readers: Mapping[TableName, tuple[Lag, ...]]
    states: dict[TableName, TableState] = field(default_factory=dict)
    """States of the tables of lower layers."""


def build_overviews(shown: OverviewInputs) -> list[TableOverview]:
    """Computes the overviews of all tables, ordered by layer and name."""
    facts = {str(name): _complete_facts(name, observed, shown) for name, observed in shown.observed.items()}
    derived = _Derived(facts, FreshnessPlan(facts, shown.now, shown.confirmed_seconds), _list_reader_lags(shown))
    layers = sorted((layer, name) for name, layer in _compute_layers(shown).items())
    return [_build_overview(name, layer, shown, derived) for layer, name in layers]


def is_news(last: TableOverview | None, now: TableOverview, seconds: float) -> bool:
    """Whether the overview `now` differs enough from `last`, the last published one, to be published.

    If only the time as of which the table shows its sources has changed, it must have changed by at least `seconds`.
    """
    if last is None or last.freshness is None or now.freshness is None:
        return last != now
    before, after = last.freshness.as_of, now.freshness.as_of
    if before is None or after is None or abs((after - before).total_seconds()) >= seconds:
        return last != now
    ingestion = now.ingestion and replace(now.ingestion, as_of=last.ingestion.as_of if last.ingestion else None)
    return last != replace(now, freshness=replace(now.freshness, as_of=before), ingestion=ingestion)


def _compute_layers(shown: OverviewInputs) -> dict[TableName, int]:
    """Maps each table to its layer, which is above the layers of the tables that it reads."""
    layers: dict[TableName, int] = {}

    def place_table(name: TableName) -> int:
        if name not in layers:
            upstreams = {*shown.read_by(name), shown.find_writer(name)} - {name}
            above = [place_table(upstream) for upstream in sorted(upstreams)]
            layers[name] = max(above, default=-1) + 1
        return layers[name]

    for name in sorted({*shown.reads, *shown.models, *shown.scheduled, *shown.source_names}):
        place_table(name)
    return layers


def _list_reader_lags(shown: OverviewInputs) -> dict[TableName, tuple[Lag, ...]]:
    """Maps each table to the lags of the models that read it."""
    lags_by_table: dict[TableName, list[Lag]] = {}
    for reader, tables in shown.reads.items():
        own = shown.observed.get(reader)
        for table in tables:
            source = shown.observed.get(table)
            offset = (own.facts.offsets or {}).get(str(table)) if own is not None else None
            if source is None or offset is None:
                continue
            left = source.facts.list_unread_commits(offset)
            lags_by_table.setdefault(table, []).append(Lag(str(reader), len(left), sum(commit.rows for commit in left)))
    return {table: tuple(sorted(lags, key=lambda lag: lag.model)) for table, lags in lags_by_table.items()}


def _complete_facts(name: TableName, observed: ObservedTable, shown: OverviewInputs) -> TableFacts:
    """Returns the facts about a table with the service's ingestion, pause or refresh failure added."""
    facts, refreshing = observed.facts, shown.get_refreshing(name)
    if facts.origin is not None:
        run = shown.ingestions.get(facts.origin.source, IngestionRun())
        return replace(facts, origin=_add_run(facts.origin, run, shown.now))
    if _is_paused(name, shown):
        return replace(facts, no_refresh=NoRefreshReason("is paused", f"resume {name}"))
    if refreshing.error:
        action = read_advice(refreshing.error) or "mend what its error names; it is tried again by itself"
        return replace(facts, no_refresh=NoRefreshReason(f"fails: {read_first_line(refreshing.error)}", action))
    return facts


def _add_run(origin: OriginStatus, run: IngestionRun, now: datetime) -> OriginStatus:
    """Adds this service's ingestion of a source to the status of the source that the tables store.

    The stored status may lack a failure, if the same failure also prevents writes.
    """
    origin = replace(origin, failure=origin.failure or run.failure)
    if not run.is_running or origin.is_ingested(now):
        return origin
    return replace(origin, ingested_by="this service", ingested_until=now + timedelta(seconds=1))


def _build_overview(name: TableName, layer: int, shown: OverviewInputs, derived: _Derived) -> TableOverview:
    model, observed = shown.models.get(name), shown.observed.get(name)
    refreshing = shown.get_refreshing(name)
    status = observed.status if observed else None
    origin = derived.facts[str(name)].origin if observed else None
    parse_position = model.source.parse_position if model and model.source else keep_opaque
    ingestion = (
        _build_ingestion_state(status.ingestion, origin, shown, parse_position)
        if status and status.ingestion and origin
        else None
    )
    kind = _choose_kind(name, model, shown)
    is_timed = observed is not None and (kind == "model" or origin is not None)
    freshness = derived.plan.get_freshness(str(name)) if is_timed else None
    state = derived.states[name] = _choose_state(name, kind, shown, origin, freshness, derived.states)
    return TableOverview(
        table=name,
        kind=kind,
        state=state,
        layer=layer,
        tested_table=model.tested_table if model else None,
        source=ingestion.source if ingestion else shown.source_names.get(name, ""),
        reads=tuple(sorted(upstream for upstream in shown.read_by(name) if upstream != name)),
        version=status.version if status else "",
        changed_at=observed.changed_at if observed else None,
        refreshed_at=refreshing.refreshed_at,
        freshness=freshness,
        target_lag_seconds=float(model.config.target_lag) if model else 0.0,
        rows=status.rows if status else 0,
        files=status.files if status else 0,
        bytes=status.bytes if status else 0,
        nodes=status.nodes if status else 0,
        versions=status.versions if status else 0,
        unmerged_commits=status.unmerged_commits if status else 0,
        unmerged_rows=status.unmerged_rows if status else 0,
        frozen_changes=status.frozen_total if status else 0,
        recent_rows=observed.count_rows_since(1000 * (shown.now.timestamp() - shown.flow_seconds)) if observed else 0,
        waste_bytes=shown.waste.get(name, 0),
        readers=derived.readers.get(name, ()),
        ingestion=ingestion,
        error=refreshing.error or (ingestion.error if ingestion else _find_load_error(name, shown)),
        retry_at=refreshing.retry_at,
        held_by=refreshing.held_by,
        schedule=shown.scheduled[name].cron if name in shown.scheduled else "",
    )


def _choose_kind(name: TableName, model: Model | None, shown: OverviewInputs) -> TableKind:
    if name in shown.source_names:
        return "ingested"
    if model is None:
        return "scheduled" if name in shown.scheduled else "source"
    if model.ingested_from is not None:
        return "ingested"
    return "landing" if model.is_landing and name not in shown.reads else "model"


def _is_paused(name: TableName, shown: OverviewInputs) -> bool:
    return shown.paused.everything or str(name) in shown.paused.tables


def _choose_state(
    name: TableName,
    kind: TableKind,
    shown: OverviewInputs,
    origin: OriginStatus | None,
    freshness: Freshness | None,
    states: Mapping[TableName, TableState],
) -> TableState:
    refreshing = shown.get_refreshing(name)
    if name not in shown.observed and not (kind == "scheduled" and name in shown.readable):
        return _choose_absent_state(name, kind, shown, states)
    if _is_paused(name, shown):
        return "paused"
    if kind == "scheduled":
        return "refreshing" if refreshing.is_running else "failed" if refreshing.error else "unknown"
    if freshness is None:
        return "unknown"
    if origin is not None:
        if freshness.as_of is None and _is_loading(origin, shown.now):
            return "loading"
        return "failed" if freshness.state == "behind" and origin.failure is not None else freshness.state
    if refreshing.is_running:
        return "refreshing"
    if refreshing.error:
        return "failed"
    if refreshing.held_by is not None and shown.refreshing.get(refreshing.held_by, Refreshing()).error:
        return "held"
    if freshness.as_of is None and "loading" in {states.get(upstream) for upstream in shown.read_by(name)}:
        return "loading"
    return freshness.state


def _choose_absent_state(
    name: TableName, kind: TableKind, shown: OverviewInputs, states: Mapping[TableName, TableState]
) -> TableState:
    """Chooses the state of a table that does not exist; `states` are those of the tables that it reads."""
    refreshing = shown.get_refreshing(name)
    if refreshing.is_running:
        return "refreshing"
    if refreshing.error or _find_load_error(name, shown):
        return "failed"
    if kind == "ingested":
        run = shown.ingestions.get(shown.source_names.get(name, ""), IngestionRun())
        return "loading" if run.is_running else "missing"
    if kind != "model" or _is_paused(name, shown):
        return "missing"
    above = {states.get(upstream) for upstream in shown.read_by(name)}
    return "held" if above & {"failed", "held"} else "missing" if "missing" in above else "loading"


def _find_load_error(name: TableName, shown: OverviewInputs) -> str:
    """Returns the reason for which this service can't load an ingested table that does not exist yet; "" if none."""
    run = shown.ingestions.get(shown.source_names.get(name, ""))
    return run.failure.message if run is not None and run.failure is not None and name not in shown.observed else ""


def _is_loading(origin: OriginStatus, now: datetime) -> bool:
    """Whether a process loads an ingested table, and nothing is known to fail."""
    return origin.failure is None and origin.wait is None and origin.is_ingested(now)


def _build_ingestion_state(
    ingestion: IngestionStatus, origin: OriginStatus, shown: OverviewInputs, parse_position: ParsePosition
) -> IngestionState:
    lag = None if origin.as_of is None else max(0.0, (shown.now - origin.as_of).total_seconds())
    error = origin.failure.message if origin.failure is not None else ""
    is_running = origin.is_ingested(shown.now)
    return IngestionState(
        ingestion.source,
        ingestion.table,
        parse_position(ingestion.position).describe_position(),
        origin.as_of,
        lag,
        ingestion.dead_letters,
        is_running,
        error,
        ingestion.loaded_rows,
        ingestion.estimated_rows,
        ingestion.settings,
        origin.ingested_by,
    )
