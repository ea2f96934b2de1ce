"""Until a load has ended, neither its table nor a model below is fresh, and both say how far the load is."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest

from arctic_runtime.ingest.job.reports import BatchReport
from arctic_runtime.ingest.source import IngestSource, SourceOrigin
from arctic_runtime.model.sources.freshness import Freshness
from arctic_runtime.operations.inspect import observe_freshness, read_status
from dbt.adapters.arctic.project.sources import list_ingested_models
from dbt.adapters.arctic.relations.freshness import find_last_loaded
from tests.spark.replay import ORDERS, Loading, Part, event, ingestion_of, source_of
from tests.spark.warehouse import Warehouse

ROWS = [event("r", None, {"id": number, "item": "a", "n": number}) for number in range(1000)]
WHOLE = {"public.orders": Part("public.orders", ORDERS, ROWS)}
SNAPSHOT = [[Part("public.orders", ORDERS, ROWS[begin:end])] for begin, end in ((0, 100), (100, 167), (167, 1000))]


@dataclass
class Watched:
    """What users see of the table of a source, and of a model below, after each batch."""

    lake: Warehouse
    source: IngestSource
    runs_model: bool = False
    dbt_times: list[datetime | None] = field(default_factory=list)
    """The times by which `dbt source freshness` judges the table."""

    seen: list[tuple[Freshness | None, Freshness | None, Any]] = field(default_factory=list)

    def ingest(self, transport: Loading, **options: Any) -> None:
        ingestion_of(self.lake, self.source, transport, self.note).run(once=True, **options)

    def note(self, _: BatchReport) -> None:
        totals = self.lake.model("totals", "select item, sum(n) as n from {orders} group by item", primary_key="item")
        if self.runs_model:
            self.lake.run(totals)
        (orders,) = list_ingested_models([self.source], self.lake.reader)
        both = [orders, totals]
        now = datetime.now(timezone.utc)
        freshness = observe_freshness(self.lake.reader, both, both, now)
        status = read_status(self.lake.reader, orders, both)
        origin = SourceOrigin(self.source.dead_letter_table, "public.orders")
        self.dbt_times.append(find_last_loaded(self.lake.reader, orders.table, origin))
        self.seen.append((freshness[orders.table], freshness.get(totals.table), status.ingestion))

    def describe(self) -> list[tuple[str, str, datetime | None]]:
        """State, reason and time of the table, which are those of the model below too."""
        shown = []
        for table, model, _ in self.seen:
            assert table is not None
            if model is not None:
                assert (model.state, model.reason, model.as_of) == (table.state, table.reason, table.as_of)
            shown.append((table.state, table.reason, table.as_of))
        return shown


@pytest.mark.in_turn
def test_a_first_load_shows_its_rows_of_about_how_many_and_no_time(lake: Warehouse) -> None:
    watched = Watched(lake, source_of(lake, "orders"), runs_model=True)
    watched.ingest(Loading(SNAPSHOT, snapshot=3, rows=WHOLE))
    name = str(lake.table("orders"))
    shown = watched.describe()
    assert shown[:2] == [
        ("behind", f"{name} is not loaded in full yet: 100 of about 1,000 rows", None),
        ("behind", f"{name} is not loaded in full yet: 167 of about 1,000 rows", None),
    ]
    ingestions = [ingestion for _, _, ingestion in watched.seen]
    assert [(seen.loaded_rows, seen.estimated_rows, seen.as_of) for seen in ingestions[:2]] == [
        (100, 1000, ""),
        (167, 1000, ""),
    ]
    assert ingestions[2].loaded_rows is None
    assert shown[2][2] is not None
    assert watched.dbt_times == [None, None, shown[2][2]]


@pytest.mark.in_turn
def test_a_load_that_was_interrupted_is_not_fresh_while_it_is_made_again(lake: Warehouse) -> None:
    watched = Watched(lake, source_of(lake, "orders"))
    watched.ingest(Loading(SNAPSHOT[:1], snapshot=3, rows=WHOLE))
    watched.ingest(Loading(SNAPSHOT, snapshot=3, rows=WHOLE))
    name = str(lake.table("orders"))
    counts = [100, 100, 167]
    assert watched.describe()[:3] == [
        ("behind", f"{name} is not loaded in full yet: {count} of about 1,000 rows", None) for count in counts
    ]


@pytest.mark.in_turn
def test_a_table_that_is_loaded_again_is_not_fresh_and_shows_the_source_as_before(lake: Warehouse) -> None:
    """Both of a whole source, and of one table alongside the stream."""
    watched = Watched(lake, source_of(lake, "orders"))
    watched.ingest(Loading(SNAPSHOT, snapshot=3, rows=WHOLE))
    name = str(lake.table("orders"))
    (known,) = list_ingested_models([watched.source], lake.reader)
    before = read_status(lake.reader, known, ()).ingestion
    assert before is not None
    watched.seen.clear()
    watched.ingest(Loading(SNAPSHOT, snapshot=3, rows=WHOLE), resync=True)
    first = watched.describe()
    assert [(state, reason) for state, reason, _ in first[:2]] == [
        ("behind", f"{name} is loaded again: {count} of about 1,000 rows") for count in (100, 167)
    ]
    assert [as_of and as_of.isoformat(" ", "seconds") for _, _, as_of in first[:2]] == [before.as_of] * 2
    watched.seen.clear()
    transport = Loading(SNAPSHOT, snapshot=3, rows=WHOLE, at="3")
    transport.is_ready.set()
    watched.ingest(transport, tables=["orders"])
    assert watched.describe()[0][1] == f"{name} is loaded again: 1 of about 1,000 rows"
