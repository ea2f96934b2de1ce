"""Finds the nodes of a build that are not published, with what blocks each, and writes `run_results.json` for them."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

PASSED = frozenset({"success", "pass", "warn", "no-op", "reused"})
"""Statuses with which dbt ends a node or a test whose relation may be published."""

_WITH_RELATION = frozenset({"model", "seed", "snapshot"})
_TESTS = frozenset({"test", "unit_test"})


@dataclass(frozen=True)
class BuildNode:
    """A node of dbt's graph, as far as publication is concerned.

    `parents` are the ids of the nodes that it reads. A test blocks its `subjects` if it does not pass; a node that is
    not a test has none.
    """

    unique_id: str
    parents: tuple[str, ...]
    subjects: tuple[str, ...] = ()
    is_test: bool = False


def read_graph(manifest: Any) -> dict[str, BuildNode]:
    """Reads the models, seeds, snapshots and tests of a manifest, by their ids.

    The subject of a generic test is the node that declares it; those of other tests are all nodes that they read.
    """
    nodes = [*manifest.nodes.values(), *getattr(manifest, "unit_tests", {}).values()]
    return {node.unique_id: _read_node(node) for node in nodes if str(node.resource_type) in _WITH_RELATION | _TESTS}


def _read_node(node: Any) -> BuildNode:
    parents = tuple(node.depends_on_nodes if hasattr(node, "depends_on_nodes") else node.depends_on.nodes)
    if str(node.resource_type) not in _TESTS:
        return BuildNode(node.unique_id, parents)
    declared_by = getattr(node, "attached_node", None)
    return BuildNode(node.unique_id, parents, (declared_by,) if declared_by in parents else parents, is_test=True)


def find_blockers(
    graph: Mapping[str, BuildNode], selected: Collection[str], statuses: Mapping[str, str]
) -> dict[str, str]:
    """Returns the nodes that are not published: for the id of each, the id of the node or test that blocks it.

    `selected` are the ids of the nodes and tests that the build was to run, and `statuses` has dbt's status of those
    that ended. A node is blocked if it failed or did not run, if a test of it did not pass, and if a node that it
    reads, directly or through others, is blocked.
    """
    children = defaultdict(list)
    for node in graph.values():
        for parent in node.parents if not node.is_test else ():
            children[parent].append(node.unique_id)
    blockers: dict[str, str] = {}
    for causes in _list_causes(graph, selected, statuses):
        waiting = deque(causes)
        while waiting:
            blocked, cause = waiting.popleft()
            if blocked not in blockers:
                blockers[blocked] = cause
                waiting.extend((child, cause) for child in children[blocked])
    return blockers


def _list_causes(
    graph: Mapping[str, BuildNode], selected: Collection[str], statuses: Mapping[str, str]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Lists pairs of a node's id and what blocks it by itself: first failures, and second what did not run at all."""
    known = [graph[unique_id] for unique_id in sorted(selected) if unique_id in graph]
    failed: list[tuple[str, str]] = []
    skipped: list[tuple[str, str]] = []
    for node in known:
        status = statuses.get(node.unique_id, "skipped")
        if status not in PASSED:
            subjects = node.subjects if node.is_test else (node.unique_id,)
            (skipped if status == "skipped" else failed).extend((subject, node.unique_id) for subject in subjects)
    return failed, skipped


def list_blocked(blockers: Mapping[str, str], selected: Iterable[str]) -> list[tuple[str, str]]:
    """Lists the selected nodes that are blocked, each with its cause, in the order of their ids."""
    return sorted((node, blockers[node]) for node in selected if node in blockers)


def sort_nodes(graph: Mapping[str, BuildNode]) -> list[str]:
    """Lists the ids of nodes so that each comes after all that it reads."""
    sorter = TopologicalSorter({node.unique_id: [p for p in node.parents if p in graph] for node in graph.values()})
    return list(sorter.static_order())


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
