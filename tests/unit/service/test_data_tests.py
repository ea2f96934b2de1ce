"""Tests of tables after their refreshes: when they are run, and what is shown of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import TableName
from arctic_runtime.service.cron_schedules import DataTestOutcome
from arctic_runtime.service.timetable import DataTests
from tests.unit.service.unreached import unreached_state

ORDERS, SALES = TableName("lake", "dwd", "orders"), TableName("lake", "dws", "sales")
PASSED = DataTestOutcome("not_null_orders_id", "pass")
FAILED = DataTestOutcome("unique_orders_id", "fail", "Got 2 results")


@dataclass
class Shop:
    """A project with tests, which tell what is put here."""

    outcomes: Sequence[DataTestOutcome] = (PASSED,)
    tables: tuple[TableName, ...] = (ORDERS,)
    ran: list[TableName] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    most: int = 100

    def __post_init__(self) -> None:
        project: Any = self
        self.shared = unreached_state(poll_seconds=0.01)
        self.tests = DataTests(project, self.shared)

    @property
    def errors(self) -> Mapping[str, str]:
        return self.shared.get_state().errors

    def list_tested_tables(self) -> tuple[TableName, ...]:
        return self.tables

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        self.ran.append(table)
        self.began.set()
        if len(self.ran) >= self.most:
            self.over.set()
        return self.outcomes

    def prepare_thread(self) -> None:
        """Nothing to do without dbt."""


def test_failing_tests_are_shown_until_they_pass() -> None:
    shop = Shop((PASSED, FAILED, DataTestOutcome("accepted_values", "warn", "Got 1 result")))
    shop.tests.perform_tests(ORDERS)
    (job,) = shop.shared.jobs.list_jobs()
    assert (job.kind, job.state, job.tables) == ("test", "failed", (ORDERS,))
    assert job.error == "1 of 3 tests failed\n  FAIL unique_orders_id: Got 2 results"
    assert job.lines[-1] == "WARN accepted_values: Got 1 result"
    assert shop.errors == {"tests of lake.dwd.orders": job.error}
    shop.outcomes = (PASSED,)
    shop.tests.perform_tests(ORDERS)
    assert shop.shared.jobs.list_jobs()[0].state == "done"
    assert shop.errors == {}


def test_tests_that_can_not_be_run_are_shown_and_end_nothing() -> None:
    shop = Shop()

    def away(_: TableName) -> Sequence[DataTestOutcome]:
        raise CatalogError("the catalog does not answer", fix="start it")

    shop.test_table = away  # type: ignore[method-assign]
    shop.tests.perform_tests(ORDERS)
    assert shop.errors == {"tests of lake.dwd.orders": "the catalog does not answer\n  what to do: start it"}
    (job,) = shop.shared.jobs.list_jobs()
    assert (job.state, job.error_details) == ("failed", {"fix": "start it"})


def test_a_service_that_begins_to_lead_runs_all_and_a_refresh_only_those_of_its_table() -> None:
    shop = Shop(tables=(ORDERS, SALES), most=2)
    shop.tests.run_until(shop.over)
    assert sorted(shop.ran) == [ORDERS, SALES]
    shop = Shop(most=2)
    thread = threading.Thread(target=shop.tests.run_until, args=(shop.over,))
    thread.start()
    shop.tests.queue_tests(SALES)
    assert shop.began.wait(30)
    shop.tests.queue_tests(ORDERS)
    thread.join(30)
    assert shop.ran == [ORDERS, ORDERS]


def test_several_refreshes_before_a_tables_turn_count_once() -> None:
    shop = Shop(tables=(ORDERS, SALES), most=2)
    for _ in range(3):
        shop.tests.queue_tests(SALES)
        shop.tests.queue_tests(ORDERS)
    shop.tests.run_until(shop.over)
    assert shop.ran == [SALES, ORDERS]


def test_a_table_whose_tests_are_not_asked_for_any_more_is_shown_no_longer() -> None:
    shop = Shop((FAILED,), tables=(ORDERS, SALES))
    shop.tests.perform_tests(ORDERS)
    shop.tables, shop.outcomes = (SALES,), (PASSED,)
    shop.tests.perform_tests(SALES)
    assert shop.errors == {}
