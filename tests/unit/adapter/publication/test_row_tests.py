"""Which tests of dbt may look at changed rows, and which versions a build remembers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt.artifacts.resources.v1.config import TestConfig as DbtTestConfig

from arctic_runtime.ivm.row_tests import RowTest
from arctic_runtime.model.names import TableName
from arctic_runtime.model.passed_tests import PassedTest, decode_passed_tests, encode_passed_tests, hash_test_name
from arctic_runtime.model.properties import PASSED_TESTS
from arctic_runtime.model.version import Version
from arctic_runtime.thresholds import SHIPPED
from dbt.adapters.arctic.publication import row_tests
from dbt.adapters.arctic.publication.planned_test import PlannedTest, has_default_settings
from dbt.adapters.arctic.publication.row_tests import ChangedRowsResponse, RowTests

ORDERS = TableName("lake", "dwd", "orders")


def configure(**config: Any) -> dict[str, Any]:
    return {"config": {**DbtTestConfig().to_dict(), **config}}


@pytest.mark.parametrize(
    "config",
    [{}, {"severity": "warn"}, {"where": "a > 1"}, {"warn_if": "!=0"}, {"store_failures": False}, {"meta": {"a": 1}}],
)
def test_usual_settings(config: dict[str, Any]) -> None:
    assert has_default_settings(configure(**config))


@pytest.mark.parametrize(
    "config",
    [
        {"limit": 10},
        {"limit": 0},
        {"fail_calc": "sum(n)"},
        {"warn_if": ">10"},
        {"error_if": "> 10"},
        {"store_failures": True},
        {"store_failures_as": "view"},
        {"sql_header": "set x = 1"},
    ],
)
def test_other_settings_need_all_rows(config: dict[str, Any]) -> None:
    assert not has_default_settings(configure(**config))


def plan(tests: RowTests, unique_id: str, sequence: int) -> PassedTest:
    passed = PassedTest("d", {"table": Version("u", 10 * sequence, sequence)})
    tests._planned[unique_id] = PlannedTest(RowTest(ORDERS, "newest"), {}, passed)
    return passed


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> RowTests:
    """The tests of a build whose table remembers two passes: of a test that still exists, and of one that does not."""
    old = {hash_test_name(name): PassedTest("d", {"table": Version("u", 1, 1)}) for name in ("test.a", "test.gone")}
    table = SimpleNamespace(properties={PASSED_TESTS: encode_passed_tests(old, 10)})
    monkeypatch.setattr(row_tests, "find_table", lambda *_: table)
    reader: Any = SimpleNamespace(thresholds=SHIPPED)
    return RowTests(reader)


def read(tests: RowTests, *declared: str) -> dict[str, PassedTest]:
    properties = tests.list_properties(declared)
    assert list(properties) == [ORDERS.changes]
    return decode_passed_tests(properties[ORDERS.changes][PASSED_TESTS])


def test_a_pass_is_remembered(tests: RowTests) -> None:
    passed = plan(tests, "test.b", 5)
    tests.note_status("test.b", "pass")
    stored = read(tests, "test.a", "test.b")
    assert stored.keys() == {hash_test_name("test.a"), hash_test_name("test.b")}
    assert stored[hash_test_name("test.b")] == passed


@pytest.mark.parametrize("status", ["fail", "warn", "error", "skipped"])
def test_only_a_pass_is_remembered(tests: RowTests, status: str) -> None:
    plan(tests, "test.a", 5)
    tests.note_status("test.a", status)
    tests.note_status("model.a", "success")
    assert tests.list_properties(["test.a"]) == {}


def test_nothing_new(tests: RowTests) -> None:
    plan(tests, "test.a", 1)
    tests._planned["test.a"] = PlannedTest(
        RowTest(ORDERS, "newest"), {}, PassedTest("d", {"table": Version("u", 1, 1)})
    )
    tests.note_status("test.a", "pass")
    assert tests.list_properties(["test.a", "test.gone"]) == {}


def test_the_response_of_a_changed_query(tests: RowTests) -> None:
    response = ChangedRowsResponse(_message="changed rows only: 2 of 9", changed_rows=2, rows=9)
    tests._responses["select a from `tested(lake.dwd.orders)`"] = response
    assert tests.find_response("select count(*) from (select a from `tested(lake.dwd.orders)`\n) t") == response
    assert tests.find_response("select a from `orders`") is None
    assert response.to_dict(omit_none=True)["changed_rows"] == 2
