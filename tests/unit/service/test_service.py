"""Services over a catalog on disk, without Spark: who leads, and what happens where the catalog or its lease goes."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import SERVICE_TABLE, ServiceTable
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import CatalogError, SourceError, SparkEnded
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.cron_schedules import DataTestOutcome, Scheduled
from arctic_runtime.service.project import ProjectSource, TableDocs
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.service import Service, ServiceWork
from arctic_runtime.service.shared_state import ServiceWarehouse
from arctic_runtime.service.view.live_data import TableOverview
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.session_pool import SessionPool
from arctic_runtime.thresholds import EngineThresholds
from tests.thresholds import changed

OFTEN = {
    "poll_seconds": 0.05,
    "look_share": 1.0,
    "retry_seconds": 0.05,
    "retry_doublings": 1,
    "lease_poll_seconds": 0.05,
    "lease_seconds": 10.0,
    "lease_renewal_seconds": 0.1,
}
LEFT = TableName("lake", "dwd", "left")


@dataclass
class Project:
    """One model over a table, each refresh of which commits a row; `refreshes` has who made them."""

    warehouse: Any
    name: str
    refreshes: list[str] = field(default_factory=list)
    disk_is_full: threading.Event = field(default_factory=threading.Event)
    threads: int = 1
    by_dbt: tuple[Scheduled, ...] = ()
    expected: tuple[TableName, ...] = ()

    def has_changed(self) -> bool:
        return False

    def load_models(self) -> None:
        return None

    def list_followed(self) -> Sequence[FollowedModel]:
        return [FollowedModel(Model(LEFT, "select id, note from a", ModelConfig(("id",))), "left")]

    def refresh_model(self, task: Task) -> RefreshResult:
        if task.has_news:
            if self.disk_is_full.is_set():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.warehouse.append("left", [(1, "x")])
            self.refreshes.append(self.name)
        return RefreshResult(Refreshed(Outcome("incremental" if task.has_news else "unchanged", "CHANGES")))

    def prepare_thread(self) -> None:
        """Nothing to do without dbt."""

    def list_models(self) -> Sequence[Model]:
        return [of.model for of in self.list_followed()]

    def list_maintained(self) -> Sequence[Maintained]:
        return ()

    def list_scheduled(self) -> Sequence[Scheduled]:
        return self.by_dbt

    def run_scheduled(self, name: str) -> str:
        raise AssertionError(name)

    def list_tested_tables(self) -> Collection[TableName]:
        return ()

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        raise AssertionError(table)

    def describe_table(self, table: TableName) -> TableDocs:
        return TableDocs()

    def list_descendants(self, tables: Collection[TableName]) -> Collection[TableName]:
        return ()

    def list_sources(self) -> Sequence[ProjectSource]:
        return (ProjectSource("shop", tables=self.expected),) if self.expected else ()


@dataclass
class Source:
    """A source whose ingestion fails until it `works`, in each attempt before its first batch is published."""

    name: str = "shop"
    works: threading.Event = field(default_factory=threading.Event)
    errors: list[str] = field(default_factory=list)
    """What the service shows at the begin of each attempt."""
    service: Service | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    settings: str = ""

    def run_ingestion(self) -> None:
        assert self.service is not None
        activity = self.service.activity
        self.errors.append(self.service.live.get_state().errors.get("ingest shop", ""))
        activity.ingest_jobs.begin_batch((self.name, False), [LEFT], "2 events")
        if not self.works.is_set():
            raise SourceError(f"attempt {len(self.errors)}")
        activity.confirm_ingestion(self.name)
        activity.ingest_jobs.end_batch((self.name, False), {"insert": 2}, "")
        self.stopping.wait()

    def stop_ingestion(self) -> None:
        self.stopping.set()


@dataclass
class Shop:
    """A warehouse, and the services over it, each as a process of its own would have it."""

    warehouse: Any
    refreshes: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    disk_is_full: threading.Event = field(default_factory=threading.Event)
    by_dbt: tuple[Scheduled, ...] = ()
    expected: tuple[TableName, ...] = ()
    sources: list[Source] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, holds: Callable[[], object]) -> None:
        """Waits until something holds, which is looked at after each event of a service."""
        with self.news:
            assert self.news.wait_for(holds, 60), "it did not come to hold"

    def announce(self, service: Service, ended: threading.Event) -> None:
        """Tells those who wait of a service's events, and of what is no event now and then."""
        events = service.live.events
        while not ended.is_set():
            events.wait_after(events.last, 0.2)
            with self.news:
                self.news.notify_all()

    @contextmanager
    def serving(self, name: str) -> Iterator[Service]:
        profile = self.warehouse.profile
        reader = CatalogReader(replace(profile, thresholds=changed(profile.thresholds, service=OFTEN)))
        project = Project(self.warehouse, name, self.refreshes, self.disk_is_full, 1, self.by_dbt, self.expected)
        warehouse = ServiceWarehouse(reader, SessionPool(profile), ServiceTable("dwd", reader))
        work = ServiceWork(ingestions=lambda: self.sources)
        service = Service(project, warehouse, work, RefreshListeners(self.said.append))
        for source in self.sources:
            source.service = service
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(service,))
        announcer = threading.Thread(target=self.announce, args=(service, ended))
        thread.start()
        announcer.start()
        try:
            yield service
        finally:
            service.stop_service()
            thread.join(60)
            ended.set()
            announcer.join()
            assert not thread.is_alive()

    @staticmethod
    def _run(service: Service) -> None:
        with suppress(SparkEnded):
            service.run_service()

    def move(self) -> None:
        self.warehouse.append("a", [(1, "x")])

    def follows(self, by: str) -> None:
        """A new row is followed, by this service."""
        before = len(self.refreshes)
        self.move()
        self.wait(lambda: len(self.refreshes) > before)
        assert set(self.refreshes[before:]) == {by}


@pytest.fixture
def shop(writing: Any, tmp_path: Path) -> Shop:
    warehouse = writing.warehouse(tmp_path)
    for name in ("a", "left"):
        warehouse.create(name)
    return Shop(warehouse)


def test_one_service_leads_and_the_other_goes_on_where_it_ends(shop: Shop) -> None:
    with shop.serving("second") as second:
        with shop.serving("first") as first:
            shop.wait(lambda: {first.live.get_state().role, second.live.get_state().role} == {"leads", "stands_by"})
            leader = "first" if first.live.get_state().role == "leads" else "second"
            shop.follows(by=leader)
        shop.wait(lambda: second.live.get_state().role == "leads")
        shop.follows(by="second")


def test_what_is_paused_at_the_service_that_stands_by_is_paused_at_the_one_that_leads(shop: Shop) -> None:
    with shop.serving("first") as first:
        shop.wait(lambda: first.live.get_state().role == "leads")
        with shop.serving("second") as second:
            shop.wait(lambda: second.live.get_state().role == "stands_by")
            second.live.requests.pause_tables(["left"], upkeep_only=False)
            shop.wait(lambda: first.live.get_state().paused_tables == (LEFT,))
            second.live.requests.resume_tables(["left"])
            shop.wait(lambda: first.live.get_state().paused_tables == ())
            shop.follows(by="first")


def test_an_error_of_ingestion_is_shown_from_attempt_to_attempt_until_a_batch_has_succeeded(shop: Shop) -> None:
    source = Source()
    shop.sources.append(source)
    with shop.serving("first") as service:
        shop.wait(lambda: len(source.errors) > 2)
        assert source.errors[:3] == ["", "attempt 1", "attempt 2"]
        shop.wait(lambda: service.live.get_state().errors.get("ingest shop", "").startswith("attempt"))
        source.works.set()
        shop.wait(lambda: "ingest shop" not in service.live.get_state().errors)
        jobs = [job for job in service.live.list_jobs() if job.kind == "ingest"]
        shop.wait(lambda: service.live.list_jobs()[0].state == "done")
    assert {(job.state, job.error) for job in jobs[1:]} <= {
        ("failed", f"attempt {number}") for number in range(1, len(source.errors))
    }


def test_a_lease_that_somebody_dropped_is_made_again_and_nothing_ends(shop: Shop) -> None:
    with shop.serving("first") as first:
        shop.wait(lambda: first.live.get_state().role == "leads")
        shop.warehouse.reader.catalog.drop_table(("dwd", SERVICE_TABLE))
        shop.follows(by="first")
        with shop.serving("second") as second:
            # Whoever makes it first has it: the other one at its start, or the first at its next sign of life.
            shop.wait(lambda: {first.live.get_state().role, second.live.get_state().role} == {"leads", "stands_by"})
            leader, other = ("first", second) if first.live.get_state().role == "leads" else ("second", first)
            # A refresh that runs while the lease moves may still end.
            shop.wait(lambda: other.activity.follower is None)
            shop.follows(by=leader)


def test_a_full_disk_fails_refreshes_and_signs_of_life_and_ends_nothing(shop: Shop) -> None:
    refused: list[str] = []

    def write(name: str, action: Callable[[], Any]) -> Any:
        if shop.disk_is_full.is_set():
            refused.append(name)
            raise CatalogError(os.strerror(errno.ENOSPC))
        return action()

    with set_failpoint(write), shop.serving("first") as first:
        shop.wait(lambda: first.live.get_state().role == "leads")
        shop.follows(by="first")
        shop.disk_is_full.set()
        shop.move()
        shop.wait(lambda: refused.count("service.commit") > 1)
        shop.wait(lambda: "No space left on device" in (first.live.find_table("left") or no_table()).error)
        before = len(shop.refreshes)
        shop.disk_is_full.clear()
        shop.wait(lambda: len(shop.refreshes) > before)
        shop.wait(lambda: not (first.live.find_table("left") or no_table()).error)
        assert first.live.get_state().role == "leads"


def test_a_table_that_dbt_makes_at_its_times_is_seen_below_what_it_reads(shop: Shop) -> None:
    shop.warehouse.create("mart")
    mart = Scheduled("model.shop.mart", TableName("lake", "dwd", "mart"), "0 6 1 1 *", reads=frozenset({LEFT}))
    shop.by_dbt = (mart,)
    with shop.serving("first") as first:
        shop.wait(lambda: first.live.find_table("mart") is not None)
        found = first.live.find_table("mart")
        assert found is not None
        assert (found.kind, found.state, found.schedule, found.layer) == ("scheduled", "unknown", "0 6 1 1 *", 2)
        first.activity.shared.set_error("schedule of model.shop.mart", "no such column")
        shop.wait(lambda: (first.live.find_table("mart") or no_table()).state == "failed")
        assert (first.live.find_table("mart") or no_table()).error == "no such column"


def test_a_table_that_ingestion_makes_is_noticed_though_no_model_reads_it(shop: Shop) -> None:
    later = TableName("lake", "dwd", "later")
    shop.expected = (later,)
    with shop.serving("first") as first:
        shop.wait(lambda: first.live.get_state().looked_at)
        assert not first.activity.shared.has_new_tables()
        shop.warehouse.create("later")
        shop.wait(first.activity.shared.has_new_tables)


def no_table() -> TableOverview:
    return TableOverview(LEFT, "model", "missing", 0)


@pytest.mark.parametrize("away", ["moved", "renamed"])
def test_a_catalog_that_is_away_is_told_and_waited_for_by_all(shop: Shop, tmp_path: Path, away: str) -> None:
    file, elsewhere = shop.warehouse.profile.sqlite_file, tmp_path / "elsewhere"
    with shop.serving("first") as first, shop.serving("second") as second:
        shop.wait(lambda: {first.live.get_state().role, second.live.get_state().role} == {"leads", "stands_by"})
        (move_file if away == "moved" else rename_table)(file, elsewhere)
        shop.wait(
            lambda: first.live.get_state().errors.get("catalog") and second.live.get_state().errors.get("catalog")
        )
        (move_file if away == "moved" else rename_table)(elsewhere, file)
        shop.wait(lambda: not first.live.get_state().errors and not second.live.get_state().errors)
        before = len(shop.refreshes)
        shop.move()
        shop.wait(lambda: len(shop.refreshes) > before)


def move_file(file: Path, to: Path) -> None:
    for end in ("", "-wal", "-shm"):
        if Path(f"{file}{end}").exists():
            Path(f"{file}{end}").replace(f"{to}{end}")


def rename_table(file: Path, to: Path) -> None:
    """The table of the catalog is called as a file is, for as long as it is away."""
    names = {"catalog.db": "iceberg_tables", "elsewhere": "elsewhere"}
    there = file if file.name == "catalog.db" else to
    with closing(sqlite3.connect(there, timeout=30)) as database, database:
        database.execute(f"alter table {names[file.name]} rename to {names[to.name]}")


@dataclass
class SideBySide(Project):
    """Three models that are refreshed one after the other; `running` are the jobs that run as each begins."""

    service: Service | None = None
    running: list[int] = field(default_factory=list)
    all_began: threading.Event = field(default_factory=threading.Event)

    def list_followed(self) -> Sequence[FollowedModel]:
        key = ModelConfig(("id",))
        names = ("left", "right", "third")
        return [FollowedModel(Model(replace(LEFT, name=name), "select id from a", key), name) for name in names]

    def refresh_model(self, task: Task) -> RefreshResult:
        assert self.service is not None
        self.running.append(sum(job.state == "running" for job in self.service.live.list_jobs()))
        if len(self.running) == 3:
            self.all_began.set()
        return RefreshResult(Refreshed(Outcome("unchanged", "CHANGES")))


def test_no_more_refreshes_run_than_threads_while_the_follower_is_busy(shop: Shop) -> None:
    reader, profile = shop.warehouse.reader, shop.warehouse.profile
    project = SideBySide(shop.warehouse, "only")
    warehouse = ServiceWarehouse(reader, SessionPool(profile), ServiceTable("dwd", reader))
    listeners = RefreshListeners(report=lambda _: project.all_began.wait(30) and None)
    project.service = service = Service(project, warehouse, ServiceWork(), listeners)
    thread = threading.Thread(target=service.run_service)
    thread.start()
    try:
        assert project.all_began.wait(30)
        assert project.running[:3] == [1, 1, 1]
    finally:
        service.stop_service()
        thread.join(60)


class Reader:
    """An ingestion that loses its connection to Spark."""

    name, settings = "shop", ""

    def __init__(self) -> None:
        self.attempts = 0

    def run_ingestion(self) -> None:
        self.attempts += 1
        raise RuntimeError("no session") from ConnectionRefusedError()

    def stop_ingestion(self) -> None:
        """It has ended."""


def test_a_service_ends_if_ingestion_alone_sees_that_spark_is_gone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as java:
        java.wait()
    for name, value in {"settings": {}, "thresholds": EngineThresholds(), "jvm": java, "ended": None}.items():
        monkeypatch.setattr(PROCESS, name, value)
    profile, ingestion = shop.warehouse.profile, Reader()
    reader = CatalogReader(replace(profile, thresholds=changed(profile.thresholds, service=OFTEN)))
    warehouse = ServiceWarehouse(reader, SessionPool(profile), ServiceTable("dwd", reader))
    service = Service(Project(shop.warehouse, "only"), warehouse, ServiceWork(ingestions=lambda: [ingestion]))
    with pytest.raises(SparkEnded, match="Spark is gone"):
        service.run_service()
    assert ingestion.attempts == 1
    assert service.live.get_state().role == "ending"
    assert "Spark is gone" in service.live.get_state().errors["spark"]


def test_a_service_outlives_a_server_that_may_come_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"sc://127.0.0.1:{server.getsockname()[1]}"
    state = {"server": url, "is_server_kept": False, "thresholds": EngineThresholds(), "ended": None}
    for name, value in state.items():
        monkeypatch.setattr(PROCESS, name, value)
    ingestion = Reader()
    shop.sources.append(ingestion)  # type: ignore[arg-type]
    with shop.serving("only") as service:
        shop.wait(lambda: ingestion.attempts > 1)
        assert service.live.get_state().role == "leads"
        assert "it does not answer any more" in service.live.get_state().errors["ingest shop"]


def test_a_service_whose_spark_is_gone_is_not_ready_while_it_ends(shop: Shop) -> None:
    with shop.serving("first") as first:
        shop.wait(lambda: first.live.get_state().role == "leads")
        first.end_without_spark(SparkEnded("Spark is gone."))
        assert first.live.get_state().role == "ending"
        assert first.live.get_state().errors == {"spark": "Spark is gone."}


@dataclass
class EndingSource(Source):
    """A source whose ingestion returns after its first batch, as nobody wants; it goes on if it `works`."""

    how: type[BaseException] | None = None

    def run_ingestion(self) -> None:
        assert self.service is not None
        self.errors.append(self.service.live.get_state().errors.get("ingest shop", ""))
        if self.works.is_set():
            self.service.activity.confirm_ingestion(self.name)
            self.stopping.wait()
        elif self.how is not None:
            raise self.how


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("how", [None, GeneratorExit], ids=["returns", "thread dies"])
def test_an_ingestion_that_ends_by_itself_is_an_error_and_tried_again(
    shop: Shop, how: type[BaseException] | None
) -> None:
    source = EndingSource(how=how)
    shop.sources.append(source)
    with shop.serving("first") as first:
        shop.wait(lambda: "without being stopped" in first.live.get_state().errors.get("ingest shop", ""))
        assert first.live.get_state().ended_parts == ("ingest shop",)
        shop.wait(lambda: len(source.errors) > 3)
        source.works.set()
        shop.wait(lambda: not first.live.get_state().ended_parts)
        assert first.live.get_state().errors == {}
    assert any("without being stopped" in line for line in shop.said)
