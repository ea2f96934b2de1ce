"""A service over the tables of a test: its project, and what waits until something holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.service.cron_schedules import DataTestOutcome, Scheduled
from arctic_runtime.service.project import ProjectSource, TableDocs
from arctic_runtime.service.refreshing.refresh_task import Refresher, RefreshListeners, RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.service import Service
from arctic_runtime.service.shared_state import ServiceWarehouse as ReachedWarehouse
from arctic_runtime.service.view.live_data import TableOverview
from arctic_runtime.spark.engine.session_pool import SessionPool
from tests.spark.warehouse import Warehouse

OFTEN: Mapping[str, Mapping[str, Any]] = {
    "service": {
        "poll_seconds": 0.1,
        "project_poll_seconds": 0.1,
        "lease_poll_seconds": 0.1,
        "lease_seconds": 5,
        "lease_renewal_seconds": 0.5,
    },
    "upkeep": {"settle_seconds": 0, "poll_seconds": 0.1},
}
"""Thresholds of a service that looks more often than a test can wait."""


@dataclass
class Project:
    """Models of a warehouse, as a dbt project has them; `landing` are tables of events whose old rows expire."""

    lake: Warehouse
    models: Sequence[Model]
    landing: Sequence[Model] = ()
    name: str = "shop"
    threads: int = 2
    is_edited: bool = False

    def __post_init__(self) -> None:
        self._refresh = Refresher(self.lake.reader, SessionPool(self.lake.environment.profile), self._readers)

    def edit(self, *models: Model) -> None:
        """The files of the project say something else from now on."""
        self.models, self.is_edited = models, True

    def has_changed(self) -> bool:
        was_edited, self.is_edited = self.is_edited, False
        return was_edited

    def load_models(self) -> Sequence[FollowedModel]:
        return self.list_followed()

    def list_followed(self) -> Sequence[FollowedModel]:
        return [FollowedModel(model, model.table.name) for model in self.models]

    def refresh_model(self, task: Task) -> RefreshResult:
        return self._refresh(task)

    def prepare_thread(self) -> None:
        """Nothing to do without dbt."""

    def list_models(self) -> Sequence[Model]:
        return (*self.models, *self.landing)

    def list_maintained(self) -> Sequence[Maintained]:
        kept = [Maintained(model, self._readers(model.table)) for model in self.models]
        return kept + [Maintained(model, self._readers(model.table), tuple(self.models)) for model in self.landing]

    def list_scheduled(self) -> Sequence[Scheduled]:
        return ()

    def run_scheduled(self, name: str) -> str:
        raise AssertionError(f"{name} is not scheduled")

    def list_tested_tables(self) -> Collection[TableName]:
        return ()

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        raise AssertionError(f"{table} has no tests")

    def describe_table(self, table: TableName) -> TableDocs:
        return TableDocs()

    def list_descendants(self, tables: Collection[TableName]) -> Collection[TableName]:
        return ()

    def list_sources(self) -> Sequence[ProjectSource]:
        return ()

    def _readers(self, table: TableName) -> tuple[TableName, ...]:
        return tuple(model.table for model in self.models if model.table != table)


@dataclass
class Running:
    """A service in a thread of its own, and what it said."""

    service: Service
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self.service.run_service)
        self._thread.start()

    def stop(self) -> None:
        self.service.stop_service()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def table(self, name: str) -> TableOverview | None:
        return self.service.live.find_table(name)

    def role(self) -> str:
        return self.service.live.get_state().role


def running(project: Project) -> Running:
    """A service over a project, as another process would have it."""
    lake, said = project.lake, list[str]()
    return Running(Service(project, to_warehouse(lake), listeners=RefreshListeners(said.append)), said)


def to_warehouse(lake: Warehouse, schema: str | None = None) -> ReachedWarehouse:
    """The warehouse of a test as a service reaches it, with its own state in this schema."""
    table = ServiceTable(schema or lake.namespace, lake.reader)
    return ReachedWarehouse(lake.reader, SessionPool(lake.environment.profile), table)


def jobs_of(one: Running, name: str) -> object:
    """The newest jobs of a table: what, how it ended, and why."""
    jobs = one.service.live.list_jobs()
    return [(job.name, job.state, job.error) for job in jobs if name in {table.name for table in job.tables}][:5]


def until(holds: Callable[[], object], seconds: float = 180, describe: Callable[[], object] = lambda: "") -> None:
    """Waits until `holds` is true; a failure shows the result of `describe`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not come to hold: {describe()}"
        time.sleep(0.05)
