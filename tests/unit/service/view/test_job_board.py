"""Jobs of a service: how they begin and end, and which are remembered."""

from __future__ import annotations

from arctic_runtime.model.names import TableName
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.job_board import JobBoard
from arctic_runtime.thresholds import ServiceThresholds

ORDERS = TableName("lake", "dwd", "orders")


def board(**limits: int) -> JobBoard:
    return JobBoard(EventLog(100), ServiceThresholds(**limits))


def test_a_job_waits_runs_and_ends_with_what_came_of_it() -> None:
    jobs = board()
    number = jobs.add_job("operation", "verify", [ORDERS]).number
    assert jobs.begin_job(number)
    jobs.report_progress(number, "half")
    ended = jobs.end_job(number, "done", lines=("all",), rows={"insert": 2})
    assert ended is not None
    assert (ended.state, ended.lines, ended.rows) == ("done", ("half", "all"), {"insert": 2})
    assert jobs.find_job(number) == ended


def test_a_job_ends_once() -> None:
    jobs = board()
    number = jobs.add_job("operation", "verify", [ORDERS]).number
    jobs.end_job(number, "failed", error="no")
    assert jobs.end_job(number, "done") is None
    job = jobs.find_job(number)
    assert job is not None
    assert job.state == "failed"


def test_jobs_of_one_kind_push_out_none_of_another() -> None:
    jobs = board(ended_jobs=2)
    first = jobs.add_job("upkeep", "compact", [ORDERS], state="running").number
    jobs.end_job(first, "failed", error="no")
    batches = [jobs.add_job("ingest", "ingest shop", [ORDERS], state="running").number for _ in range(5)]
    for number in batches:
        jobs.end_job(number, "done")
    assert [job.number for job in jobs.list_jobs()] == [batches[4], batches[3], first]
    assert jobs.find_job(first) is not None
    assert jobs.find_job(batches[0]) is None


def test_a_job_that_is_cancelled_while_it_waits_never_begins() -> None:
    jobs = board()
    number = jobs.add_job("operation", "verify", [ORDERS]).number
    cancelled = jobs.cancel_job(number)
    assert cancelled is not None
    assert cancelled.state == "cancelled"
    assert not jobs.begin_job(number)


def test_a_running_job_is_asked_to_end() -> None:
    jobs, published = board(), list[str]()
    number = jobs.add_job("upkeep", "compact", [ORDERS], state="running").number
    assert jobs.cancel_job(number) is None
    jobs.allow_cancel(number, lambda: published.append(number))
    jobs.cancel_job(number)
    assert published == [number]
    assert jobs.cancel_job("99") is None


def test_a_job_whose_work_can_be_ended_begins_once() -> None:
    events = EventLog(100)
    jobs = JobBoard(events, ServiceThresholds())
    number = jobs.add_job("operation", "verify", [ORDERS]).number
    jobs.begin_job(number)
    began = jobs.find_job(number)
    jobs.allow_cancel(number, lambda: None)
    assert jobs.find_job(number) == began
    logged, _ = events.wait_after(0)
    assert [event.data.state for event in logged] == ["waiting", "running"]


def test_what_waits_or_runs_comes_before_what_has_ended_newest_first() -> None:
    jobs = board(ended_jobs=2)
    numbers = [jobs.add_job("refresh", f"m{at}", [ORDERS]).number for at in range(5)]
    for number in numbers[:3]:
        jobs.end_job(number, "done")
    assert [job.name for job in jobs.list_jobs()] == ["m4", "m3", "m2", "m1"]


def test_followers_of_events_hear_of_a_job_that_is_forgotten() -> None:
    events = EventLog(100)
    jobs = JobBoard(events, ServiceThresholds())
    number = jobs.add_job("refresh", "orders", [ORDERS], state="running").number
    jobs.discard_job(number)
    assert jobs.list_jobs() == []
    logged, _ = events.wait_after(0)
    assert [(event.kind, event.data) for event in logged[1:]] == [("forgotten_job", {"number": number})]
