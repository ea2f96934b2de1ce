"""Operations that users ask a service for, and their end when the service ends."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.operation import Answer, Operation, OperationContext
from arctic_runtime.service.activity import Activity
from arctic_runtime.service.user_requests import UserRequests
from tests.unit.service.unreached import unreached_state


class JobsOfSpark:
    """A pool of one session, which stands for Spark: its jobs run until they are interrupted."""

    def __init__(self) -> None:
        self.interrupts = threading.Semaphore(0)
        self.began = threading.Event()
        self.sparkContext = SimpleNamespace(setJobDescription=lambda text: None)

    def take_session(self) -> Any:
        return self

    def discard_session(self, session: Any) -> None:
        pass

    def note_tag(self, tag: str) -> None:
        pass

    def interrupt_jobs(self, tag: str) -> list[str]:
        self.interrupts.release()
        return []

    addTag, removeTag, interruptTag = note_tag, note_tag, interrupt_jobs  # noqa: N815 - names of Spark

    def run_job(self) -> None:
        """Runs a job that ends only by an interrupt."""
        self.began.set()
        self.interrupts.acquire()


def ask(perform: Any, sessions: JobsOfSpark) -> tuple[UserRequests, Activity]:
    """Lets a service without tables start an operation, and waits until it runs."""
    activity = Activity(unreached_state())
    project = SimpleNamespace(list_models=list, list_descendants=lambda tables: ())
    warehouse = SimpleNamespace(reader=activity.shared.reader, sessions=sessions)
    requests = UserRequests(cast(Any, project), cast(Any, warehouse), activity, cast(Any, None))
    requests.submit_operation(Operation("scan", "reads all", "any", perform, needs_spark=True, changes=True), [], {})
    assert sessions.began.wait(60)
    return requests, activity


def test_an_operation_that_starts_job_after_job_ends_with_the_service() -> None:
    spark = JobsOfSpark()

    def perform(context: OperationContext, *_: Any) -> Answer:
        context.spark()
        for _ in range(3):
            spark.run_job()
        raise RuntimeError("interrupted")

    requests, activity = ask(perform, spark)
    requests.close_operations()
    (job,) = activity.shared.jobs.list_jobs()
    assert (job.state, job.lines) == ("cancelled", ("cancelled, since the service ends",))
    with pytest.raises(ConfigError, match="this service ends"):
        requests.submit_operation(Operation("scan", "", "any", perform, needs_spark=True, changes=True), [], {})
    assert [other.state for other in activity.shared.jobs.list_jobs()] == ["cancelled", "cancelled"]


def test_an_operation_without_jobs_of_spark_ends_at_its_next_line_of_progress() -> None:
    spark = JobsOfSpark()

    def perform(context: OperationContext, *_: Any) -> Answer:
        spark.began.set()
        while True:
            context.progress("one more")

    requests, activity = ask(perform, spark)
    requests.close_operations()
    (job,) = activity.shared.jobs.list_jobs()
    assert (job.state, "scan was cancelled" in (job.error or "")) == ("cancelled", True)
