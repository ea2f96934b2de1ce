"""What can go wrong between a source and the tables below it, and what is then said of each of three layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.freshness import OriginStatus, TableFacts
from arctic_runtime.model.sources.ingestion import Failure, to_millis
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version
from arctic_runtime.operations.inspect import IngestionStatus, Status
from arctic_runtime.service.view.live_data import TableOverview
from arctic_runtime.service.view.overviews import (
    IngestionRun,
    ObservedTable,
    OverviewInputs,
    Refreshing,
    build_overviews,
)

ODS, DWD, DWS = (TableName("lake", schema, "orders") for schema in ("ods", "dwd", "dws"))


def ingested(origin: OriginStatus, now: datetime, commits: int) -> ObservedTable:
    """The table of a source; until its newest commit of several it showed the source as of half an hour ago."""
    at = [now - timedelta(minutes=1500 if number < commits else 25) for number in range(1, commits + 1)]
    before = to_millis(now - timedelta(minutes=30))
    made = tuple(
        Commit(
            Version("ods", number, number),
            None,
            "append",
            5,
            0,
            RunSummary(run=str(number), shown_before_ms=before).encode(),
            to_millis(moment),
        )
        for number, moment in enumerate(at, 1)
    )
    status = Status(str(ODS), True, version="7", rows=10, ingestion=IngestionStatus("shop", "public.orders"))
    return ObservedTable(TableFacts("ods", made, None, origin), status)


def modelled(log: str, above: str, now: datetime) -> ObservedTable:
    offsets = {f"lake.{above}.orders": Version(above, 1, 1)}
    run = RunSummary(run="1", offsets=offsets).encode()
    made = (Commit(Version(log, 1, 1), None, "append", 5, 0, run, to_millis(now - timedelta(minutes=1400))),)
    status = Status(f"lake.{log}.orders", True, version="3", rows=10)
    return ObservedTable(TableFacts(log, made, offsets), status)


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong: of the source, with ingestion by this service, or with the middle model.

    `states` are those of the three tables then, from the source down; `reason` is in the words for the last, and
    `alerts` are those that fire when it lasts.
    """

    states: tuple[str, str, str]
    reason: str
    as_of_minutes: float | None
    alerts: tuple[str, ...] = ()
    failing_minutes: float | None = None
    is_held: bool = False
    is_ingested: bool = True
    run: bool | None = None
    commits: int = 1
    middle: Mapping[str, Any] | None = None
    is_paused: bool = False

    def overviews(self, now: datetime) -> list[TableOverview]:
        failure = None
        if self.failing_minutes is not None:
            since = now - timedelta(minutes=self.failing_minutes)
            failure = Failure("db1 does not answer.\n  what to do: start the database server", since)
        as_of = None if self.as_of_minutes is None else now - timedelta(minutes=self.as_of_minutes)
        until = now + timedelta(seconds=40) if self.is_ingested else now - timedelta(minutes=20)
        origin = OriginStatus("shop", as_of, None if self.is_held else failure, failure if self.is_held else None)
        origin = replace(origin, ingested_by="process 7 on etl", ingested_until=until)
        key = ModelConfig(("id",))
        models = {
            ODS: Model(ODS, "", key, ingested_from="public.orders"),
            DWD: Model(DWD, "", key),
            DWS: Model(DWS, "", key),
        }
        shown = OverviewInputs(
            now,
            {DWD: [ODS], DWS: [DWD]},
            models,
            {
                ODS: ingested(origin, now, self.commits),
                DWD: modelled("dwd", "ods", now),
                DWS: modelled("dws", "dwd", now),
            },
            {DWD: Refreshing(**self.middle)} if self.middle else {},
            {} if self.run is None else {"shop": IngestionRun(self.run, failure)},
            paused=Paused(tables=frozenset({str(DWD)})) if self.is_paused else Paused(),
        )
        return build_overviews(shown)


TROUBLES: Mapping[str, Trouble] = {
    "the database is down": Trouble(
        ("failed", "behind", "behind"),
        "ingestion of source shop fails: db1 does not answer",
        as_of_minutes=25,
        failing_minutes=25,
        alerts=("ArcticIngestionFailing", "ArcticIngestionLag", "ArcticTableStale"),
    ),
    "the database is down, between two attempts": Trouble(
        ("failed", "behind", "behind"),
        "ingestion of source shop fails: db1 does not answer",
        as_of_minutes=25,
        failing_minutes=25,
        is_ingested=False,
        alerts=("ArcticIngestionFailing", "ArcticIngestionLag", "ArcticTableStale"),
    ),
    "an error repeats, and this service can't write it down": Trouble(
        ("failed", "behind", "behind"),
        "ingestion of source shop fails: db1 does not answer",
        as_of_minutes=0.5,
        run=True,
        failing_minutes=0.4,
        alerts=("ArcticIngestionFailing",),
    ),
    "the lag grows": Trouble(
        ("behind", "behind", "behind"),
        "ingestion of source shop by process 7 on etl has come no further",
        as_of_minutes=25,
        alerts=("ArcticIngestionLag", "ArcticTableStale"),
    ),
    "the process that ingests is dead": Trouble(
        ("behind", "behind", "behind"),
        "no process ingests source shop",
        as_of_minutes=25,
        is_ingested=False,
        alerts=("ArcticSourceNotIngested", "ArcticIngestionLag", "ArcticTableStale"),
    ),
    "the model in the middle fails": Trouble(
        ("fresh", "failed", "behind"),
        "lake.ods.orders has 1 commit more: lake.dwd.orders fails: division by zero",
        as_of_minutes=0.5,
        commits=2,
        middle={"error": "division by zero"},
        alerts=("ArcticModelFailing", "ArcticTableStale"),
    ),
    "the model in the middle is paused": Trouble(
        ("fresh", "paused", "behind"),
        "lake.ods.orders has 1 commit more: lake.dwd.orders is paused",
        as_of_minutes=0.5,
        commits=2,
        is_paused=True,
        alerts=("ArcticTableStale",),
    ),
    "the table waits alone": Trouble(
        ("held", "behind", "behind"),
        "lake.ods.orders waits: db1 does not answer",
        as_of_minutes=25,
        failing_minutes=25,
        is_held=True,
        alerts=("ArcticIngestionLag", "ArcticTableStale"),
    ),
    "the table is not loaded in full": Trouble(
        ("loading", "loading", "loading"), "lake.ods.orders is not loaded in full yet", as_of_minutes=None
    ),
    "nothing: the source is idle": Trouble(("fresh", "fresh", "fresh"), "", as_of_minutes=1.2),
}

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=timezone.utc)
