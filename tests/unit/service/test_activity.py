"""Refreshes and ingestion of a service: their jobs, and what is shown of them afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.plan.row_conditions import split_model
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.activity import Activity, IngestJobs
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Report, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.user_requests import UserRequests
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.job_board import JobBoard
from arctic_runtime.thresholds import SHIPPED, ServiceThresholds
from tests.unit.service.unreached import unreached_state

SALES = TableName("lake", "dws", "sales")
MODEL = FollowedModel(Model(SALES, "select 1 as id", ModelConfig(("id",))), "sales")
TASK = Task(MODEL, PinnedSnapshots(), has_news=True, is_known=True)
NOW = datetime(2026, 11, 25, 12, 0, tzinfo=timezone.utc)


def test_a_refresh_is_a_job_and_its_table_is_busy_until_it_ends() -> None:
    activity = Activity(unreached_state())
    activity.begin_refresh(TASK)
    (job,) = activity.shared.jobs.list_jobs()
    assert (job.kind, job.state, activity.shared.list_busy_tables()) == ("refresh", "running", (SALES,))
    assert activity.list_refreshing(NOW)[SALES].is_running
    done = RefreshResult(Refreshed(Outcome("incremental", "CHANGES", rows={"insert": 3})))
    activity.end_refresh(Report(MODEL, "refreshed", NOW, done=done))
    (job,) = activity.shared.jobs.list_jobs()
    assert (job.state, job.rows, job.reason) == ("done", {"insert": 3}, "incremental (CHANGES)")
    assert not activity.shared.list_busy_tables()
    assert activity.list_refreshing(NOW)[SALES].refreshed_at is not None


def test_a_quarantine_is_busy_and_refreshed_with_its_table() -> None:
    config = ModelConfig(("id",), on_failed_row="quarantine")
    followed = FollowedModel(split_model(Model(SALES, "select 1 as id", config), ()), "sales")
    activity = Activity(unreached_state())
    activity.shared.set_tables([followed], followed.model.parts, (), ())
    activity.begin_refresh(replace(TASK, followed=followed))
    assert set(activity.shared.list_busy_tables()) == {SALES, SALES.quarantine}
    activity.end_refresh(Report(followed, "failed", NOW, error="lost"))
    assert not activity.shared.list_busy_tables()
    asked: list[set[TableName]] = []
    activity.follower = cast(Any, SimpleNamespace(refresh_soon=asked.append))
    reader = SimpleNamespace(thresholds=SHIPPED)
    requests = UserRequests(cast(Any, None), cast(Any, SimpleNamespace(reader=reader)), activity, cast(Any, None))
    for names in ([], ["sales__quarantine"], ["sales", "sales__quarantine"]):
        requests.refresh_tables(names)
    assert asked == [{SALES}] * 3
    requests.close_operations()


def test_a_refresh_that_had_nothing_to_do_leaves_no_job() -> None:
    activity = Activity(unreached_state())
    activity.begin_refresh(TASK)
    activity.end_refresh(
        Report(MODEL, "unchanged", NOW, done=RefreshResult(Refreshed(Outcome("unchanged", "NOTHING_NEW"))))
    )
    assert activity.shared.jobs.list_jobs() == []


def test_a_failed_refresh_shows_its_error_and_the_time_of_the_next_attempt() -> None:
    activity = Activity(unreached_state())
    activity.begin_refresh(TASK)
    activity.end_refresh(Report(MODEL, "failed", NOW, error="division by zero", retry_seconds=60.0))
    state = activity.list_refreshing(NOW)[SALES]
    assert (state.is_running, state.error) == (False, "division by zero")
    assert state.retry_at is not None
    (job,) = activity.shared.jobs.list_jobs()
    assert (job.state, job.error) == ("failed", "division by zero")


def test_why_ingestion_fails_is_shown_since_its_first_failure_until_a_batch_succeeds() -> None:
    activity = Activity(unreached_state())
    activity.begin_ingestion("shop")
    activity.fail_ingestion("shop", "no connection", is_running=True)
    first = activity.list_ingestions()["shop"].failure
    activity.fail_ingestion("shop", "no password", is_running=False)
    second = activity.list_ingestions()["shop"].failure
    assert first is not None
    assert second is not None
    assert (second.message, second.since) == ("no password", first.since)
    assert activity.shared.get_state().errors == {"ingest shop": "no password"}
    activity.begin_ingestion("shop")
    assert activity.list_ingestions()["shop"].failure == second
    activity.confirm_ingestion("shop")
    assert activity.list_ingestions()["shop"].failure is None
    assert activity.shared.get_state().errors == {}


ORDERS = TableName("lake", "ods", "orders")


def test_a_batch_is_a_job_until_it_is_published() -> None:
    board = JobBoard(EventLog(100), ServiceThresholds())
    jobs = IngestJobs(board)
    jobs.begin_batch(("shop", False), [ORDERS], "20 events from postgresql db1:5432/shop")
    (running,) = board.list_jobs()
    assert (running.kind, running.name, running.state, running.tables) == (
        "ingest",
        "ingest shop",
        "running",
        (ORDERS,),
    )
    assert running.reason == "20 events from postgresql db1:5432/shop"
    jobs.end_batch(("shop", False), {"insert": 12, "update": 8}, "shop: 20 events")
    jobs.end_batch(("shop", False), {}, "a look that brought nothing")
    (ended,) = board.list_jobs()
    assert (ended.state, ended.rows, ended.lines) == ("done", {"insert": 12, "update": 8}, ("shop: 20 events",))


def test_a_load_alongside_the_stream_has_a_job_of_its_own() -> None:
    board = JobBoard(EventLog(100), ServiceThresholds())
    jobs = IngestJobs(board)
    jobs.begin_batch(("shop", True), [ORDERS], "load")
    jobs.begin_batch(("shop", False), [ORDERS], "stream")
    jobs.end_batch(("shop", False), {}, "")
    assert {job.reason: job.state for job in board.list_jobs()} == {"load": "running", "stream": "done"}


def test_what_was_under_way_ends_with_the_ingestion_of_its_source() -> None:
    board = JobBoard(EventLog(100), ServiceThresholds())
    jobs = IngestJobs(board)
    for source in ("shop", "web"):
        jobs.begin_batch((source, False), [ORDERS], "")
    jobs.close_source("shop", "db1 does not answer", {"fix": "start it"})
    assert {job.name: (job.state, job.error, job.error_details) for job in board.list_jobs()} == {
        "ingest shop": ("failed", "db1 does not answer", {"fix": "start it"}),
        "ingest web": ("running", "", {}),
    }
    jobs.close_source("web")
    assert [job.state for job in board.list_jobs()] == ["cancelled", "failed"]
