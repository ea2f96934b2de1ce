"""Runs the dbt data tests of tables after the tables' refreshes."""

from __future__ import annotations

import threading

from arctic_runtime.model.names import TableName
from arctic_runtime.service.project import ServedProject
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.spark.engine.messages import get_error_details, get_message
from arctic_runtime.spark.engine.spark_loss import to_spark_ended


class DataTests:
    """Runs the tests of refreshed tables, one table at a time; a failure does not prevent the tests of other tables.

    If a table is refreshed several times before its turn, its tests are run once. When a service begins to lead, the
    tests of all tables are run, since earlier failures must still be shown.
    """

    def __init__(self, project: ServedProject, shared: SharedState) -> None:
        self._project = project
        self._shared = shared
        self._poll_seconds = shared.reader.thresholds.service.poll_seconds
        self._changed = threading.Condition()
        self._waiting: dict[TableName, None] = {}
        self._failing: set[TableName] = set()

    def queue_tests(self, table: TableName) -> None:
        """Queues the tests of a table, if it has any; can be called from any thread."""
        if table in self._project.list_tested_tables():
            with self._changed:
                self._waiting[table] = None
                self._changed.notify()

    def run_until(self, over: threading.Event) -> None:
        """Runs queued tests until `over` is set; tests that are running at that time are finished."""
        self._project.prepare_thread()
        for table in self._project.list_tested_tables():
            self.queue_tests(table)
        while not over.is_set():
            following = self._take_next()
            if following is not None and not over.is_set():
                self.perform_tests(following)

    def perform_tests(self, table: TableName) -> None:
        """Runs the tests of a table, and shows their outcomes as a job and, if any failed, as a service error."""
        for gone in self._failing - set(self._project.list_tested_tables()):
            self._show_failures(gone, "")
        job = self._shared.jobs.add_job("test", "dbt test", (table,), "after a refresh", "running")
        try:
            outcomes = self._project.test_table(table)
        except Exception as error:
            cause = to_spark_ended(error) or error
            message = get_message(cause)
            self._shared.jobs.end_job(job.number, "failed", error=message, error_details=get_error_details(cause))
            self._show_failures(table, message)
            return
        lines, failed = tuple(map(str, outcomes)), [outcome for outcome in outcomes if outcome.has_failed]
        if not failed:
            self._shared.jobs.end_job(job.number, "done", lines=lines)
            self._show_failures(table, "")
            return
        message = "\n".join([f"{len(failed)} of {len(outcomes)} tests failed", *(f"  {outcome}" for outcome in failed)])
        self._shared.jobs.end_job(job.number, "failed", lines=lines, error=message)
        self._show_failures(table, message)

    def _take_next(self) -> TableName | None:
        with self._changed:
            if not self._waiting:
                self._changed.wait(self._poll_seconds)
            table = next(iter(self._waiting), None)
            if table is not None:
                del self._waiting[table]
            return table

    def _show_failures(self, table: TableName, message: str) -> None:
        self._shared.report_error(f"tests of {table}", message)
        if message:
            self._failing.add(table)
        else:
            self._failing.discard(table)
