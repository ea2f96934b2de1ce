"""Batches that a service ingests are jobs while they are under way."""

from __future__ import annotations

from arctic_runtime.model.names import TableName
from arctic_runtime.service.activity import IngestJobs
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.job_board import JobBoard
from arctic_runtime.thresholds import ServiceThresholds

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
