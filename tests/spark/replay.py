"""A source of change events that replays a log, and the ingestion of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.debezium import build_debezium_format
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, BatchWork, JobListeners
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.connector import SourceConnection
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, CatalogTable, TableEvents
from tests.spark.warehouse import Warehouse

ORDERS = SourceSchema((SourceColumn("id", "bigint"), SourceColumn("item", "string"), SourceColumn("n", "int")), ("id",))
ITEMS = SourceSchema((SourceColumn("name", "string"), SourceColumn("price", "decimal(10,2)")), ("name",))


def event(
    op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, at: int = 0, lsn: int | None = None
) -> str:
    source = {"ts_us": 1_700_000_000_000_000 + at, "lsn": lsn}
    return json.dumps({"before": before, "after": after, "op": op, "source": source})


def move(before: dict[str, Any], after: dict[str, Any], lsn: int) -> list[str]:
    """The two events by which PostgreSQL sends an update of the primary key."""
    return [event("d", before, None, lsn=lsn), event("c", None, after, lsn=lsn)]


@dataclass(frozen=True)
class Part:
    """Events of one table, each with its place in the log of the source; no schema where columns are declared."""

    table: str
    schema: SourceSchema | None
    texts: Sequence[str | bytes]


@dataclass
class Replay:
    """A transport that replays a log of batches; a position is the number of batches up to it.

    The first `snapshot` batches are a snapshot, of which there is only a whole one.
    """

    log: list[list[Part]]
    acknowledged: list[str] = field(default_factory=list)
    opened: str = "0"
    snapshot: int = 0
    initial = "0"

    def check_source(self, position: str | None) -> None:
        pass

    def open_at(self, position: str) -> None:
        self.opened = "0" if self.begins_with_snapshot(position) else position

    def begins_with_snapshot(self, position: str) -> bool:
        return int(position) < self.snapshot

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        for place in range(int(self.opened), len(self.log)):
            tables = tuple(self._events(part, place) for part in self.log[place])
            count = sum(len(part.texts) for part in self.log[place])
            yield Batch(tables, str(place + 1), count, is_snapshot=place + 1 < self.snapshot)

    def _events(self, part: Part, place: int) -> TableEvents:
        kind = pa.binary() if any(isinstance(text, bytes) for text in part.texts) else pa.string()
        count = len(part.texts)
        columns = {
            PAYLOAD: pa.array(part.texts, kind),
            ORIGIN: pa.array([f"{place}:{n}" for n in range(count)], pa.string()),
            ARRIVAL: pa.array(range(count), pa.int64()),
        }
        return TableEvents(part.table, part.schema, pa.table(columns))

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        origins = events.events[ORIGIN].to_pylist()
        kept = [int(origin.split(":")[0]) >= int(position) or self.begins_with_snapshot(position) for origin in origins]
        return replace(events, events=events.events.filter(pa.array(kept, pa.bool_())))

    def acknowledge_batch(self, batch: Batch) -> None:
        self.acknowledged.append(batch.position)

    def close_source(self) -> None:
        pass


@dataclass
class Load:
    """A load of a replay: two halves of the rows of a snapshot, and then what its log has more of the tables.

    The second half comes when `replay.is_ready`, and after the log batches without events until the load is to finish.
    """

    replay: Loading
    half: Callable[[bool], Batch]
    over: threading.Event = field(default_factory=threading.Event)
    finishing: threading.Event = field(default_factory=threading.Event)

    def read_batches(self) -> Generator[Batch]:
        yield self.half(False)
        while not (self.over.is_set() or self.finishing.is_set() or self.replay.is_ready.wait(0.01)):
            pass
        if self.over.is_set():
            return
        yield self.half(True)
        for place in range(int(self.replay.at), len(self.replay.log)):
            yield self.replay.stream(place)
        while not (self.over.is_set() or self.finishing.wait(0.01)):
            yield Batch((), str(len(self.replay.log)), 0, caught_up=datetime.now(timezone.utc))

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        return self.replay.select_after(events, position)

    def acknowledge_batch(self, batch: Batch) -> None:
        pass

    def finish_load(self) -> None:
        self.finishing.set()

    def close_source(self) -> None:
        self.over.set()


@dataclass
class Loading(Replay):
    """A replay that also loads tables beside its stream: `rows` of snapshots by table, as of the position `at`.

    Where it is not read until it is drained, it waits for the load of tables when its log has ended.
    """

    rows: dict[str, Part] = field(default_factory=dict)
    at: str = "0"
    loaded: list[str] = field(default_factory=list)
    tables: Sequence[str] = ()
    followed: list[Collection[str]] = field(default_factory=list)
    is_ready: threading.Event = field(default_factory=threading.Event)
    unsent: dict[str, SourceError | None] = field(default_factory=dict)
    paused: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)

    def list_catalog(self) -> list[CatalogTable]:
        return [CatalogTable("public", table, ("id",)) for table in self.tables]

    def find_unreadable(self, tables: Collection[str]) -> Mapping[str, str]:
        return {}

    def open_at(self, position: str) -> None:
        super().open_at(position)
        self.paused.clear()
        self.closed.clear()

    def estimate_rows(self, tables: Collection[str]) -> dict[str, int]:
        return {table: len(self.rows[table].texts) for table in tables if table in self.rows}

    def find_unsent(self, tables: Collection[str], streamed: Collection[str]) -> dict[str, SourceError | None]:
        return {table: error for table, error in self.unsent.items() if table in tables}

    def follow_tables(self, tables: Collection[str]) -> None:
        self.followed.append(tables)

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        if not until_drained:
            yield Batch((), self.opened, 0)
        for batch in super().read_batches(until_drained):
            if self.paused.is_set():
                return
            yield replace(batch, tables=tuple(table for table in batch.tables if table.table in self.followed[-1]))
        while not (until_drained or self.closed.is_set() or self.paused.wait(0.01)):
            pass

    def close_source(self) -> None:
        self.closed.set()

    def load_tables(self, tables: Collection[str], position: str) -> Load:
        self.loaded += tables
        parts = [self.rows[table] for table in tables]

        def half(is_last: bool) -> Batch:
            texts = [part.texts[1:] if is_last else part.texts[:1] for part in parts]
            events = [self._events(replace(part, texts=own), 0) for part, own in zip(parts, texts, strict=True)]
            place = self.at if is_last else "0"
            return Batch(tuple(events), place, sum(map(len, texts)), is_snapshot=not is_last)

        return Load(self, half)

    def stream(self, place: int) -> Batch:
        """The events of the tables that are loaded at a place of the log."""
        tables = tuple(self._events(event, place) for event in self.log[place] if event.table in self.loaded)
        return Batch(tables, str(place + 1), len(tables))

    def join_tables(self, tables: Collection[str], position: str, end: Batch) -> str:
        return position

    def pause_reading(self) -> None:
        self.paused.set()


def source_of(lake: Warehouse, *names: str, **settings: Any) -> IngestSource:
    tables = tuple(IngestedTable(name, f"public.{name}", lake.table(name), settings) for name in names)
    return IngestSource("shop", "replay", {}, tables, lake.table("shop__dead_letters"))


def ingest(lake: Warehouse, source: IngestSource, transport: Replay, tables: Collection[str] = ()) -> list[BatchReport]:
    """Ingests a source to its end, some tables from another snapshot on."""
    reports: list[BatchReport] = []
    ingestion_of(lake, source, transport, reports.append).run(once=True, tables=tables)
    return reports


def ingestion_of(
    lake: Warehouse,
    source: IngestSource,
    transport: Replay,
    report: Callable[[BatchReport], None] = lambda _: None,
    begin: Callable[[BatchWork], None] = lambda _: None,
) -> Ingestion:
    return Ingestion(
        source,
        SourceConnection(transport, build_debezium_format()),
        lake.reader,
        lake.environment.new_session,
        JobListeners(report, begin),
    )
