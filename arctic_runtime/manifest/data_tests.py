"""Runs the data tests of a manifest over the tables that a command has refreshed, as dbt counts their failures."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from arctic_runtime.errors import ArcticError
from arctic_runtime.manifest.manifest_file import Node, is_managed, list_parents
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.spark.data_tests import ANY_FAILURE, Failures, count_failures
from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.session_pool import SessionPool, lend_session

TestStatus = Literal["pass", "warn", "fail", "error", "skipped"]


@dataclass(frozen=True)
class TestResult:
    """Result of a data test; `failures` is the number that its `fail_calc` has counted, None without a count."""

    unique_id: str
    status: TestStatus
    began: datetime
    seconds: float = 0.0
    failures: int | None = None
    message: str | None = None

    __test__ = False
    """Keeps pytest from collecting the class."""


def run_tests(models: ManifestModels, refreshed: Collection[str], pool: SessionPool) -> list[TestResult]:
    """Runs each test of the models `refreshed` once, in the order of the tests' ids.

    A test that is not compiled, or that reads another managed model too, which was not refreshed, is skipped.
    """
    names = sorted({test for name in refreshed for test in models.manifest.list_tests(name)})
    return [_skip_test(models, name, refreshed) or perform_test(models, name, pool) for name in names]


def _skip_test(models: ManifestModels, name: str, refreshed: Collection[str]) -> TestResult | None:
    """Returns the result of a test that reads a managed model that was not refreshed; None for other tests."""
    nodes = models.manifest.nodes
    missing = [
        parent
        for parent in list_parents(nodes[name])
        if parent in nodes and is_managed(nodes[parent]) and parent not in refreshed
    ]
    if not missing:
        return None
    message = f"{', '.join(missing)} was not refreshed"
    return TestResult(name, "skipped", datetime.now(timezone.utc), message=message)


def perform_test(models: ManifestModels, name: str, pool: SessionPool) -> TestResult:
    """Runs a test over the tables as they are; a test that is not compiled is skipped."""
    began, node = datetime.now(timezone.utc), models.manifest.nodes[name]
    if models.manifest.read_compiled(name) is None:
        return TestResult(name, "skipped", began, message="it is not compiled")
    try:
        with lend_session(pool) as take:
            failures = count_failures(take(), models.write_query(name), node["config"])
    except Exception as error:
        text = str(error) if isinstance(error, ArcticError) else get_message(error)
        return TestResult(name, "error", began, _count_seconds(began), message=text)
    status = judge_test(node, failures)
    limit = node["config"].get("error_if" if status == "fail" else "warn_if") or ANY_FAILURE
    message = None if status == "pass" else f"Got {failures.count} results, configured to {status} if {limit}"
    return TestResult(name, status, began, _count_seconds(began), failures.count, message)


def judge_test(node: Node, failures: Failures) -> TestStatus:
    """Returns the status of a test with these failures: by its severity, `error` without one, and its limits."""
    is_error = str(node["config"].get("severity") or "error").lower() == "error"
    if is_error and failures.should_error:
        return "fail"
    return "warn" if failures.should_warn else "pass"


def _count_seconds(began: datetime) -> float:
    return (datetime.now(timezone.utc) - began).total_seconds()
