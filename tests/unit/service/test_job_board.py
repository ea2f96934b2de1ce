from __future__ import annotations

from arctic_runtime.model.names import TableName
from arctic_runtime.service.event_log import EventLog
from arctic_runtime.service.job_board import JobBoard
from arctic_runtime.thresholds import ServiceThresholds

ORDERS = TableName("lake", "dwd", "orders")


def board(**limits: int) -> JobBoard:
    return JobBoard(EventLog(100), ServiceThresholds(**limits))


def test_a_job_waits_runs_and_ends_with_what_came_of_it() -> None:
    jobs = board()
    number = jobs.add("operation", "verify", [ORDERS]).number
    assert jobs.begin(number)
    jobs.say(number, "half")
    ended = jobs.end(number, "done", lines=("all",), rows={"insert": 2})
    assert ended is not None
    assert (ended.state, ended.lines, ended.rows) == ("done", ("half", "all"), {"insert": 2})
    assert jobs.job(number) == ended


def test_a_job_ends_once() -> None:
    jobs = board()
    number = jobs.add("operation", "verify", [ORDERS]).number
    jobs.end(number, "failed", error="no")
    assert jobs.end(number, "done") is None
    found = jobs.job(number)
    assert found is not None
    assert found.state == "failed"


def test_jobs_of_one_kind_push_out_none_of_another() -> None:
    jobs = board(ended_jobs=2)
    first = jobs.add("upkeep", "compact", [ORDERS], state="running").number
    jobs.end(first, "failed", error="no")
    batches = [jobs.add("ingest", "ingest shop", [ORDERS], state="running").number for _ in range(5)]
    for number in batches:
        jobs.end(number, "done")
    assert [job.number for job in jobs.jobs()] == [batches[4], batches[3], first]
    assert jobs.job(first) is not None
    assert jobs.job(batches[0]) is None


def test_a_job_that_is_cancelled_while_it_waits_never_begins() -> None:
    jobs = board()
    number = jobs.add("operation", "verify", [ORDERS]).number
    cancelled = jobs.cancel(number)
    assert cancelled is not None
    assert cancelled.state == "cancelled"
    assert not jobs.begin(number)


def test_a_job_that_runs_is_told_to_end() -> None:
    jobs, told = board(), list[str]()
    number = jobs.add("upkeep", "compact", [ORDERS], state="running").number
    assert jobs.cancel(number) is None
    jobs.allow_cancel(number, lambda: told.append(number))
    jobs.cancel(number)
    assert told == [number]
    assert jobs.cancel("99") is None


def test_a_job_whose_work_can_be_ended_begins_once() -> None:
    events = EventLog(100)
    jobs = JobBoard(events, ServiceThresholds())
    number = jobs.add("operation", "verify", [ORDERS]).number
    jobs.begin(number)
    began = jobs.job(number)
    jobs.allow_cancel(number, lambda: None)
    assert jobs.job(number) == began
    found, _ = events.after(0)
    assert [event.data.state for event in found] == ["waiting", "running"]


def test_what_waits_or_runs_comes_before_what_has_ended_newest_first() -> None:
    jobs = board(ended_jobs=2)
    numbers = [jobs.add("refresh", f"m{at}", [ORDERS]).number for at in range(5)]
    for number in numbers[:3]:
        jobs.end(number, "done")
    assert [job.name for job in jobs.jobs()] == ["m4", "m3", "m2", "m1"]


def test_followers_of_events_hear_of_a_job_that_is_forgotten() -> None:
    events = EventLog(100)
    jobs = JobBoard(events, ServiceThresholds())
    number = jobs.add("refresh", "orders", [ORDERS], state="running").number
    jobs.forget(number)
    assert jobs.jobs() == []
    found, _ = events.after(0)
    assert [(event.kind, event.data) for event in found[1:]] == [("forgotten_job", {"number": number})]
