"""Results of a run of a manifest, in the schema of dbt."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.manifest.data_tests import TestResult, judge_test
from arctic_runtime.manifest.manifest_file import read_manifest
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.manifest.profile_file import ManifestTarget
from arctic_runtime.manifest.results_file import write_results
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.profile import Profile
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Report
from arctic_runtime.spark.data_tests import Failures
from tests.manifest_project import write_manifest

BEGAN = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)


def test_dbt_reads_the_results_of_models_and_tests(tmp_path: Path) -> None:
    from dbt.artifacts.schemas.run import RunResultsArtifact

    target = ManifestTarget(Profile.for_embedded(tmp_path / "warehouse"))
    models = ManifestModels(read_manifest(write_manifest(tmp_path, "duckdb")), target)
    followed = models.build_followed("model.shop.dwd_orders")
    outcome = Outcome("incremental", "CHANGES", rows={"insert": 1, "update": 2, "delete": 0, "upsert": 0}, version=7)
    reports = [
        Report(followed, "refreshed", BEGAN, 1.5, RefreshResult(Refreshed(outcome))),
        Report(models.build_followed("model.shop.ods_events"), "failed", BEGAN, error="no such table"),
    ]
    tests = [TestResult("test.shop.amounts", "fail", BEGAN, 0.5, 3, "Got 3 results, configured to fail if != 0")]
    write_results(models, reports, tests, BEGAN, {"which": "run"})

    written = json.loads((tmp_path / "target" / "run_results.json").read_text())
    read = RunResultsArtifact.from_dict(written)
    assert [(result.unique_id, str(result.status)) for result in read.results] == [
        ("model.shop.dwd_orders", "success"),
        ("model.shop.ods_events", "error"),
        ("test.shop.amounts", "fail"),
    ]
    refreshed, failed, tested = written["results"]
    assert refreshed["adapter_response"]["version"] == "7"
    assert refreshed["message"] == "incremental +1 ~2 -0"
    assert failed["message"] == "no such table"
    assert (tested["failures"], tested["compiled"]) == (3, True)


@pytest.mark.parametrize(
    ("config", "failures", "expected"),
    [
        ({}, Failures(0, False, False), "pass"),
        ({}, Failures(1, True, True), "fail"),
        ({"severity": "warn"}, Failures(1, True, True), "warn"),
        ({"severity": None}, Failures(1, True, True), "fail"),
        ({"severity": "ERROR"}, Failures(1, True, False), "warn"),
    ],
)
def test_severity_and_limits_decide_as_in_dbt(config: dict[str, Any], failures: Failures, expected: str) -> None:
    assert judge_test({"config": config}, failures) == expected
