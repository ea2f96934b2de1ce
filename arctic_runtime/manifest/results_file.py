"""Writes `run_results.json` beside a manifest, in the schema in which dbt writes it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from arctic_runtime.manifest.data_tests import TestResult
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.manifest.table_docs import RESULTS_FILE
from arctic_runtime.operations.run_response import describe_response, format_response
from arctic_runtime.service.refreshing.refresh_task import Report
from arctic_runtime.service.refreshing.run_results import RUN_STATUS

_SCHEMA = "https://schemas.getdbt.com/dbt/run-results/v6.json"


def write_results(
    models: ManifestModels,
    reports: Iterable[Report],
    tests: Iterable[TestResult],
    began: datetime,
    arguments: Mapping[str, Any],
) -> None:
    """Writes the results of models and tests; `began` is the start of the command, `arguments` its options."""
    ended = datetime.now(timezone.utc)
    manifest = models.manifest
    document = {
        "metadata": {
            "dbt_schema_version": _SCHEMA,
            "dbt_version": manifest.dbt_version,
            "generated_at": _format_time(ended),
            "invocation_id": str(uuid.uuid4()),
            "invocation_started_at": _format_time(began),
            "env": {},
        },
        "results": [
            *(_describe_report(models, report) for report in reports),
            *(_describe_test(models, result) for result in tests),
        ],
        "elapsed_time": (ended - began).total_seconds(),
        "args": dict(arguments),
    }
    file = manifest.file.parent / RESULTS_FILE
    file.write_text(json.dumps(document, default=str), encoding="utf-8")


def _describe_report(models: ManifestModels, report: Report) -> dict[str, Any]:
    done = None if report.done is None else report.done.refreshed
    response = {} if done is None else {"_message": format_response(done), **describe_response(done)}
    timing = [] if report.status == "skipped" else _list_timings(report.began, report.seconds)
    return {
        "status": RUN_STATUS[report.status],
        "timing": timing,
        "thread_id": report.thread or "main",
        "execution_time": report.seconds,
        "adapter_response": response,
        "message": report.error or None if done is None else format_response(done),
        "failures": None,
        **_describe_node(models, report.followed.name, report.followed.model.sql),
    }


def _describe_test(models: ManifestModels, result: TestResult) -> dict[str, Any]:
    return {
        "status": result.status,
        "timing": [] if result.status == "skipped" else _list_timings(result.began, result.seconds),
        "thread_id": "main",
        "execution_time": result.seconds,
        "adapter_response": {},
        "message": result.message,
        "failures": result.failures,
        **_describe_node(models, result.unique_id, models.manifest.read_compiled(result.unique_id)),
    }


def _describe_node(models: ManifestModels, name: str, code: str | None) -> dict[str, Any]:
    return {
        "unique_id": name,
        "compiled": code is not None,
        "compiled_code": code,
        "relation_name": models.manifest.nodes[name].get("relation_name"),
        "batch_results": None,
    }


def _list_timings(began: datetime, seconds: float) -> Sequence[Mapping[str, str]]:
    ended = began + timedelta(seconds=seconds)
    return [{"name": "execute", "started_at": _format_time(began), "completed_at": _format_time(ended)}]


def _format_time(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
