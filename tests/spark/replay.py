"""A source of change events that replays a log, and the ingestion of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from arctic_runtime.ingest.formats.debezium import debezium
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.job import BatchReport, Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, TableEvents
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


def source_of(lake: Warehouse, *names: str, **settings: Any) -> IngestSource:
    tables = tuple(IngestedTable(name, f"public.{name}", lake.table(name), settings) for name in names)
    return IngestSource("shop", "replay", {}, tables, lake.table("shop__dead_letters"))


def ingest(lake: Warehouse, source: IngestSource, transport: Replay) -> list[BatchReport]:
    reports: list[BatchReport] = []
    Ingestion(source, transport, debezium(), lake.reader, lake.environment.session, reports.append).run(once=True)
    return reports
