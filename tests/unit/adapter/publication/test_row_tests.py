"""Which tests of dbt may look at changed rows, and which versions a build remembers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.artifacts.resources.v1.config import TestConfig as DbtTestConfig
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.ivm.row_tests import RowTest
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import PASSED_TESTS
from arctic_runtime.model.version import Version
from arctic_runtime.thresholds import SHIPPED
from dbt.adapters.arctic.publication import row_tests
from dbt.adapters.arctic.publication.row_tests import (
    ChangedRowsResponse,
    PassedTest,
    PlannedTest,
    RowTests,
    decode_passed_tests,
    encode_passed_tests,
    has_default_settings,
    hash_test_name,
    merge_passed_tests,
)

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


_versions = st.builds(Version, st.text(max_size=9), st.integers(), st.integers(0, 9))
_tests = st.builds(
    PassedTest, st.text(max_size=9), st.dictionaries(st.sampled_from(["table", "parent"]), _versions, min_size=1)
)
_known = st.dictionaries(st.text(max_size=9), _tests, max_size=5)


@given(_known)
def test_tests_survive_a_property(tests: dict[str, PassedTest]) -> None:
    assert decode_passed_tests(encode_passed_tests(tests, 10)) == tests


@given(_known, st.integers(0, 3))
def test_the_newest_stay(tests: dict[str, PassedTest], most: int) -> None:
    kept = decode_passed_tests(encode_passed_tests(tests, most))
    assert len(kept) == min(most, len(tests))
    dropped = [newest(test) for name, test in tests.items() if name not in kept]
    assert all(newest(test) >= age for test in kept.values() for age in dropped)


def newest(test: PassedTest) -> int:
    return max(version.sequence for version in test.versions.values())


@settings(max_examples=200)
@given(
    st.none()
    | st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["definition", "table", "a"]), inner),
    ).map(json.dumps)
)
def test_any_text_can_be_read(text: str | None) -> None:
    tests = decode_passed_tests(text)
    assert decode_passed_tests(encode_passed_tests(tests, len(tests))) == tests


@given(_known, _known, st.sets(st.text(max_size=9)))
def test_tests_that_are_gone_are_forgotten(
    stored: dict[str, PassedTest], passed: dict[str, PassedTest], declared: set[str]
) -> None:
    declared |= set(list(stored)[:2])
    merged = merge_passed_tests(stored, passed, declared)
    assert merged.keys() == (stored.keys() | passed.keys()) & declared
    assert all(test == passed.get(name, stored.get(name)) for name, test in merged.items())


def test_names_are_short() -> None:
    names = {hash_test_name(f"test.shop.not_null_orders_{i}") for i in range(1000)}
    assert len(names) == 1000
    assert {len(name) for name in names} == {16}
