"""A service over real tables: models follow, files are kept up under a budget, and of two services one leads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from arctic_runtime.catalog.observation.manifests import observe_totals
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table import Model
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.plan.maintenance.upkeep import UpkeepBudget
from arctic_runtime.service.shared_state import Clock, SharedState
from arctic_runtime.service.upkeep import UpkeepRunner
from arctic_runtime.service.view.live_data import Job
from arctic_runtime.spark.engine.session_pool import SessionPool
from dbt.adapters.arctic.commands.ingest_upkeep import IngestedUpkeep
from tests.spark.replay import ORDERS, Part, Replay, event, ingest, source_of
from tests.spark.serving import OFTEN, Project, Running, running, until
from tests.spark.warehouse import Warehouse, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANDED = "id int, city string"
PATIENT = {**OFTEN["service"], "lease_seconds": 30}
"""A service that is busy for some seconds keeps its lease."""


Start = Callable[..., Running]


@pytest.fixture
def start(lake: Warehouse) -> Iterator[Start]:
    """Starts services over models, which end with the test."""
    begun: list[Running] = []

    def starts(*models: Model) -> Running:
        begun.append(running(Project(lake.under(**{**OFTEN, "service": PATIENT}), models)))
        return begun[-1]

    yield starts
    for one in begun:
        one.stop()


def refreshed(running: Running, count: int) -> dict[str, int]:
    """The models of that many refreshes, once these have ended, and how many rows each inserted."""

    def ended() -> list[Job]:
        return [job for job in running.service.live.list_jobs() if job.kind == "refresh" and job.state == "done"]

    until(lambda: len(ended()) >= count)
    return {job.tables[0].name: dict(job.rows).get("insert", 0) for job in ended()}


def test_models_follow_and_are_shown_and_the_other_service_takes_over(lake: Warehouse, start: Start) -> None:
    lake.append("landed", [(1, "a"), (2, "b")], LANDED)
    keyed = lake.model("keyed", "select id, city from {landed}", primary_key="id")
    cities = lake.model("cities", "select city, count(*) as n from {keyed} group by city", primary_key="city")
    first = start(keyed, cities)
    until(lambda: first.table("cities") and first.table("cities").state == "fresh")  # type: ignore[union-attr]
    second = start(keyed, cities)
    until(lambda: second.service.live.get_state().leader)
    assert (first.role(), second.role()) == ("leads", "stands_by")
    until(second.service.live.list_tables)
    assert [(table.table.name, table.layer) for table in second.service.live.list_tables()] == [
        ("landed", 0), ("keyed", 1), ("cities", 2),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="stands by"):
        second.service.live.requests.refresh_tables([])

    first.stop()
    until(lambda: second.role() == "leads")
    lake.append("landed", [(3, "a")], LANDED)
    until(lambda: lake.rows(cities) == [("a", 2), ("b", 1)])
    until(lambda: second.table("landed").readers[0].commits == 0)  # type: ignore[union-attr]
    assert refreshed(second, 2) == {"keyed": 1, "cities": 0}
    assert lake.broken(cities) == []


@pytest.mark.in_turn
def test_requests_of_users_are_done_alongside_and_a_paused_model_holds_back_downstream_models(
    lake: Warehouse, start: Start
) -> None:
    lake.append("landed", [(1, "a")], LANDED)
    keyed = lake.model("keyed", "select id, city from {landed}", primary_key="id")
    cities = lake.model("cities", "select city, count(*) as n from {keyed} group by city", primary_key="city")
    one = start(keyed, cities)
    live = one.service.live
    until(lambda: one.table("cities") and one.table("cities").state == "fresh")  # type: ignore[union-attr]
    live.requests.pause_tables(["keyed"], upkeep_only=False)
    lake.append("landed", [(2, "b")], LANDED)
    until(lambda: one.table("cities").freshness.action == f"resume {keyed.table}")  # type: ignore[union-attr]
    assert one.table("keyed").state == "paused"  # type: ignore[union-attr]

    number = live.requests.submit_operation(get_operation("verify"), ["cities"], {}).number
    until(lambda: live.find_job(number).state == "done")  # type: ignore[union-attr]
    answer = live.requests.answer_operation(get_operation("status"), ["keyed"], {}, plan=False)
    assert answer.data[0]["rows"] == 1
    forget = live.requests.answer_operation(get_operation("forget"), ["keyed"], {"key": ["1"]}, plan=True)
    assert [table["keys"] for table in forget.data["tables"]][:1] == [1]
    broken = live.requests.submit_operation(get_operation("restore"), ["keyed"], {"version": "1"}).number
    until(lambda: live.find_job(broken).state == "failed")  # type: ignore[union-attr]
    assert "version" in live.find_job(broken).error  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="did you mean 'cities'"):
        live.requests.submit_operation(get_operation("verify"), ["citties"], {})

    live.requests.resume_tables(["keyed"])
    until(lambda: lake.rows(cities) == [("a", 1), ("b", 1)])


def test_upkeep_waits_for_writers_and_is_tried_again_after_a_failure(lake: Warehouse) -> None:
    model = lake.model("m", "select id, city from {s}", primary_key="id", compaction={"change_files": 2})
    for number in range(4):
        lake.load("s", [(at, "a") for at in range(number + 1)], LANDED)
        lake.run(model)
    now = [0.0]
    is_away = threading.Event()
    is_away.set()

    class Away(SessionPool):
        def take_session(self) -> SparkSession:
            if is_away.is_set():
                raise ConfigError("no server answers")
            return super().take_session()

    reader = lake.under(compaction={"commit_bytes": 0}).reader
    shared, pool, budget = SharedState(reader), Away(lake.environment.profile), UpkeepBudget(bytes_per_minute=2**30)
    runner = UpkeepRunner(shared, pool, budget, Clock(monotonic=lambda: now[0]))
    shared.begin_writing(model.table)
    runner.set_tables([Maintained(model)])
    runner.find_due()
    assert runner.begin_due() == []
    (waiting,) = runner.list_planned()
    assert (waiting.operation, waiting.waits_for) == ("compact", "for its writer")
    assert runner.sum_waste()[model.table] > 0

    shared.end_writing(model.table)
    (due,) = runner.begin_due()
    runner.perform_due(due)
    (job,) = shared.jobs.list_jobs()
    assert (job.state, job.error) == ("failed", "no server answers")
    assert runner.begin_due() == []

    is_away.clear()
    now[0] += reader.thresholds.upkeep.retry_seconds
    rows = lake.rows(model)
    (due,) = runner.begin_due()
    runner.perform_due(due)
    job = shared.jobs.list_jobs()[0]
    assert (job.state, job.bytes > 0) == ("done", True)
    assert lake.rows(model) == rows
    runner.find_due()
    assert runner.begin_due() == []
    assert runner.list_planned() == []


@pytest.mark.slow
def test_ingestion_compacts_the_tables_that_it_writes(lake: Warehouse) -> None:
    source = source_of(lake, "orders", compaction={"change_files": 2})
    log = [
        [Part("public.orders", ORDERS, [event("c", None, {"id": number, "item": "a", "n": 1})])] for number in range(4)
    ]
    ingest(lake, source, Replay(log))
    reader = lake.under(compaction={"commit_bytes": 0}).reader
    changes = source.tables[0].table.changes
    assert observe_totals(reader, changes).files == 4

    upkeep = IngestedUpkeep([source], lambda _: (), reader, SessionPool(lake.environment.profile))
    upkeep.run_once()

    assert observe_totals(reader, changes).files == 1
    assert len(sorted_rows(lake.spark.table(lake.sql_name("orders")))) == 4
