"""Describes tables as a manifest documents them, with the results of data tests in `run_results.json` beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_args

from arctic_runtime.manifest.manifest_file import Manifest
from arctic_runtime.manifest.masks import read_masks
from arctic_runtime.service.cron_schedules import DataTestStatus
from arctic_runtime.service.project import LastDataTest, TableDocs

RESULTS_FILE = "run_results.json"


def describe_node(manifest: Manifest, name: str) -> TableDocs:
    """Returns the description of a model, seed, snapshot or source, by the id of its node."""
    node = manifest.nodes[name]
    results = read_test_results(manifest.file.parent / RESULTS_FILE)
    return TableDocs(
        str(node.get("description") or ""),
        str(node.get("raw_code") or ""),
        {
            str(column).lower(): str(described.get("description") or "")
            for column, described in (node.get("columns") or {}).items()
        },
        tuple(
            build_last_test(str(manifest.nodes[test]["name"]), results.get(test)) for test in manifest.list_tests(name)
        ),
        read_masks(node),
    )


def read_test_results(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """Reads the results of `run_results.json` by unique id; empty for a file that is missing or can't be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        document = json.loads(file.read_text(encoding="utf-8"))
        return {result["unique_id"]: result for result in document["results"]}
    return {}


def build_last_test(name: str, result: Mapping[str, Any] | None) -> LastDataTest:
    """Builds the last run of a data test from its result in `run_results.json`, None if there is none."""
    status: Any = None if result is None else result.get("status")
    if result is None or status not in get_args(DataTestStatus):
        return LastDataTest(name)
    return LastDataTest(name, status, str(result.get("message") or ""), _read_end(result))


def _read_end(result: Mapping[str, Any]) -> datetime | None:
    ends = [part.get("completed_at") for part in result.get("timing") or ()]
    with suppress(ValueError, TypeError):
        at = datetime.fromisoformat(str(ends[-1]).replace("Z", "+00:00")) if ends else None
        return at.replace(tzinfo=timezone.utc) if at is not None and at.tzinfo is None else at
    return None
