"""A live service that does nothing: it shows what a test puts into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from arctic_runtime.catalog.change_rows.read import ChangeRows
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness
from arctic_runtime.operations.operation import Answer, Audit, Operation
from arctic_runtime.operations.queries import QueryAnswer
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.live_data import (
    IngestionState,
    Job,
    Lag,
    ServiceState,
    SourceOverview,
    TableOverview,
    Upkeep,
)

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=timezone.utc)
ORDERS = TableName("lake", "ods", "orders")
SALES = TableName("lake", "dws", "sales")
EVENTS = TableName("lake", "raw", "events")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def tables() -> list[TableOverview]:
    """A table of each kind but landing: one ingested, one model that is stale, and one that others write."""
    return [
        TableOverview(EVENTS, "source", "unknown", 0, version="1", changed_at=ago(60), rows=5, files=1, bytes=100),
        TableOverview(
            ORDERS,
            "ingested",
            "fresh",
            0,
            version="7",
            changed_at=ago(10),
            refreshed_at=ago(5),
            rows=1000,
            files=8,
            bytes=4096,
            nodes=4,
            versions=7,
            unmerged_commits=2,
            unmerged_rows=30,
            waste_bytes=512,
            readers=(Lag("dws.sales", 1, 12),),
            freshness=Freshness("fresh", ago(12)),
            source="shop",
            ingestion=IngestionState("shop", "shop.orders", "0/16", ago(12), 12.5, 3, True),
        ),
        TableOverview(
            SALES,
            "model",
            "failed",
            1,
            reads=(ORDERS,),
            version="3",
            changed_at=ago(90),
            refreshed_at=ago(90),
            freshness=Freshness("behind", ago(42), str(ORDERS), ago(40), "it has more", "", 30.0),
            target_lag_seconds=30.0,
            rows=10,
            files=1,
            bytes=256,
            error="division by zero",
        ),
    ]


@dataclass
class StillService:
    """Serves what it has; the operations of `LiveService` that change something are noted in `asked`."""

    role: Any = "leads"
    is_paused: bool = False
    errors: Mapping[str, str] = field(default_factory=dict)
    looked_at: datetime | None = NOW
    shown: Sequence[TableOverview] = field(default_factory=tables)
    listed: Sequence[Job] = ()
    planned: Sequence[Upkeep] = ()
    events: EventLog = field(default_factory=lambda: EventLog(capacity=100))
    asked: list[tuple[str, object]] = field(default_factory=list)

    @property
    def requests(self) -> StillService:
        return self

    def get_state(self) -> ServiceState:
        return ServiceState(
            ago(3600),
            "1.2.3",
            "shop",
            self.role,
            is_paused=self.is_paused,
            looked_at=self.looked_at,
            errors=self.errors,
        )

    def list_tables(self) -> Sequence[TableOverview]:
        return self.shown

    def list_sources(self) -> Sequence[SourceOverview]:
        return ()

    def find_table(self, name: str) -> TableOverview | None:
        return next((table for table in self.shown if str(table.table) == name), None)

    def list_jobs(self) -> Sequence[Job]:
        return self.listed

    def find_job(self, number: str) -> Job | None:
        return next((job for job in self.listed if job.number == number), None)

    def list_upkeep(self) -> Sequence[Upkeep]:
        return self.planned

    def answer_operation(
        self, operation: Operation, tables: Sequence[str], given_arguments: Mapping[str, Any], plan: bool
    ) -> Answer:
        raise NotImplementedError

    def answer_query(self, query: str, limit: int | None, audit: Audit) -> QueryAnswer:
        raise NotImplementedError

    def open_changes(self, table: str, start: str | None, end: str | None) -> ChangeRows:
        raise NotImplementedError

    def submit_operation(self, operation: Operation, tables: Sequence[str], given_arguments: Mapping[str, Any]) -> Job:
        raise NotImplementedError

    def refresh_tables(self, tables: Sequence[str]) -> None:
        self.asked.append(("refresh", tables))

    def cancel_job(self, number: str) -> Job | None:
        return self.find_job(number)

    def pause_tables(self, tables: Sequence[str], upkeep_only: bool) -> None:
        self.asked.append(("pause", tables))

    def resume_tables(self, tables: Sequence[str]) -> None:
        self.asked.append(("resume", tables))


def refresh(number: str, state: Any = "done", seconds: float = 2.0, **rows: int) -> Job:
    """A refresh of `SALES` that began a second after it was queued."""
    return Job(number, "refresh", "sales", (SALES,), state, ago(10), ago(9), ago(9 - seconds), seconds, rows=rows)
