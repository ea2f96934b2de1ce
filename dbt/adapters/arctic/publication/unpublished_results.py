"""Results of nodes that ran in a build and were not published: `run_results.json` says so, so `dbt retry` repeats them.

dbt itself would repeat the nodes that failed, and take the others for done, although readers do not see their rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dbt.adapters.arctic.publication.blockers import PASSED, BuildNode


def list_unpublished(graph: Mapping[str, BuildNode], blocked: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Lists what has to run again, given pairs of a blocked node's id and a text: these nodes, and their tests."""
    reasons = dict(blocked)
    for node in graph.values():
        reason = next((reasons[name] for name in (node.unique_id, *node.subjects) if name in reasons), None)
        if reason is not None:
            yield node.unique_id, reason


def mark_unpublished(file: Path, reasons: Mapping[str, str]) -> None:
    """Gives nodes in a file of results the status `skipped`, and a reason as their message, by their ids.

    A node that failed keeps its status and its message.
    """
    content = json.loads(file.read_text())
    for result in content["results"]:
        if result["unique_id"] in reasons and result["status"] in PASSED:
            result |= {"status": "skipped", "message": reasons[result["unique_id"]], "failures": None}
    part = file.with_name(f"{file.name}.part")
    part.write_text(json.dumps(content))
    part.replace(file)


def write_unpublished(file: Path, manifest: Any, selected: Collection[str], flags: Any, reason: str) -> None:
    """Writes a file of results in which all selected nodes are skipped, for dbt writes none if a build can't end.

    `flags` are those of the command, which `dbt retry` repeats.
    """
    from dbt.artifacts.schemas.results import RunStatus
    from dbt.artifacts.schemas.run import RunExecutionResult, RunResult
    from dbt.utils import args_to_dict

    nodes = [manifest.expect(unique_id) for unique_id in sorted(selected)]
    results: Any = [RunResult(RunStatus.Skipped, [], "main", 0.0, {}, reason, None, node) for node in nodes]
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    done: Any = RunExecutionResult(results=results, elapsed_time=0.0, generated_at=now, args=args_to_dict(flags))
    file.parent.mkdir(parents=True, exist_ok=True)
    done.write(str(file))
