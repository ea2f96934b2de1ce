"""A source of change events that replays a log, and the ingestion of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from arctic_runtime.ingest.formats.debezium import debezium
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.job import BatchReport, Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, CatalogTable, TableEvents
from tests.spark.warehouse import Warehouse

ORDERS = SourceSchema((SourceColumn("id", "bigint"), SourceColumn("item", "string"), SourceColumn("n", "int")), ("id",))
ITEMS = SourceSchema((SourceColumn("name", "string"), SourceColumn("price", "decimal(10,2)")), ("name",))


def event(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, at: int = 0) -> str:
    return json.dumps({"before": before, "after": after, "op": op, "source": {"ts_us": 1_700_000_000_000_000 + at}})


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

    def check(self, position: str | None) -> None:
        pass

    def open(self, position: str) -> None:
        self.opened = "0" if self.snapshots(position) else position

    def snapshots(self, position: str) -> bool:
        return int(position) < self.snapshot

    def batches(self, until_drained: bool) -> Iterator[Batch]:
        for place in range(int(self.opened), len(self.log)):
            tables = tuple(self._events(part, place) for part in self.log[place])
            count = sum(len(part.texts) for part in self.log[place])
            yield Batch(tables, str(place + 1), count, is_snapshot=place + 1 < self.snapshot)

    def _events(self, part: Part, place: int) -> TableEvents:
        kind = pa.binary() if any(isinstance(of, bytes) for of in part.texts) else pa.string()
        count = len(part.texts)
        columns = {
            PAYLOAD: pa.array(part.texts, kind),
            ORIGIN: pa.array([f"{place}:{n}" for n in range(count)], pa.string()),
            ARRIVAL: pa.array(range(count), pa.int64()),
        }
        return TableEvents(part.table, part.schema, pa.table(columns))

    def after(self, events: TableEvents, position: str) -> TableEvents:
        origins = events.events[ORIGIN].to_pylist()
        kept = [int(origin.split(":")[0]) >= int(position) or self.snapshots(position) for origin in origins]
        return replace(events, events=events.events.filter(pa.array(kept, pa.bool_())))

    def acknowledge(self, batch: Batch) -> None:
        self.acknowledged.append(batch.position)

    def close(self) -> None:
        pass


@dataclass
class Loading(Replay):
    """A replay that also loads tables beside its stream: `rows` of snapshots by table, as of the position `at`."""

    rows: dict[str, Part] = field(default_factory=dict)
    at: str = "0"
    loaded: list[str] = field(default_factory=list)
    tables: Sequence[str] = ()
    taken: list[str] = field(default_factory=list)

    def catalog(self) -> list[CatalogTable]:
        return [CatalogTable("public", table, ("id",)) for table in self.tables]

    def take_on(self, tables: Collection[str]) -> None:
        self.taken += tables

    def load(self, tables: Collection[str], position: str) -> Generator[Batch]:
        self.loaded += tables
        parts = [self.rows[table] for table in tables]
        halves = [(replace(of, texts=of.texts[:1]), replace(of, texts=of.texts[1:])) for of in parts]
        first, last = (tuple(self._events(half[place], 0) for half in halves) for place in range(2))
        yield Batch(first, "0", len(first), is_snapshot=True)
        yield Batch(last, self.at, sum(len(of.texts) for of in parts) - len(first), progress=position)


def source_of(lake: Warehouse, *names: str, **settings: Any) -> IngestSource:
    tables = tuple(IngestedTable(name, f"public.{name}", lake.table(name), settings) for name in names)
    return IngestSource("shop", "replay", {}, tables, lake.table("shop__dead_letters"))


def ingest(lake: Warehouse, source: IngestSource, transport: Replay, tables: Collection[str] = ()) -> list[BatchReport]:
    """Ingests a source to its end, some tables from another snapshot on."""
    reports: list[BatchReport] = []
    ingestion_of(lake, source, transport, reports.append).run(once=True, tables=tables)
    return reports


def ingestion_of(
    lake: Warehouse, source: IngestSource, transport: Replay, report: Callable[[BatchReport], None] = lambda _: None
) -> Ingestion:
    return Ingestion(source, transport, debezium(), lake.reader, lake.environment.session, report)
