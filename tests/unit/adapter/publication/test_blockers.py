"""What a build does not publish: nodes that failed or did not run, those of failed tests, and all below them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dbt.adapters.arctic.publication.blockers import (
    BuildNode,
    find_blockers,
    list_blocked,
    list_unpublished,
    mark_unpublished,
    read_graph,
)

STATUSES = ("success", "pass", "warn", "error", "fail", "skipped", "partial success")
PASSED = {"success", "pass", "warn"}


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, BuildNode]:
    count = draw(st.integers(1, 8))
    nodes = {}
    for number in range(count):
        above = [f"m{other}" for other in range(number)]
        parents = tuple(draw(st.lists(st.sampled_from(above), unique=True, max_size=3))) if above else ()
        nodes[f"m{number}"] = BuildNode(f"m{number}", parents)
    for number in range(draw(st.integers(0, 6))):
        read = tuple(draw(st.lists(st.sampled_from(sorted(nodes)[:count]), unique=True, min_size=1, max_size=2)))
        subjects = draw(st.sampled_from([read, read[:1]]))
        nodes[f"t{number}"] = BuildNode(f"t{number}", read, subjects, is_test=True)
    return nodes


def is_fine(graph: dict[str, BuildNode], name: str, selected: set[str], statuses: dict[str, str]) -> bool:
    """Whether a node may be published, by the rule itself: it and its tests passed, and so did all that it reads."""
    tests = [node for node in graph.values() if node.is_test and name in node.subjects]
    own = [name, *(test.unique_id for test in tests)]
    passed = all(statuses.get(part) in PASSED for part in own if part in selected)
    return passed and all(is_fine(graph, parent, selected, statuses) for parent in graph[name].parents)


@given(graphs(), st.data())
def test_blocked_by_the_rule(graph: dict[str, BuildNode], data: st.DataObject) -> None:
    selected = data.draw(st.sets(st.sampled_from(sorted(graph))))
    statuses = data.draw(st.dictionaries(st.sampled_from(sorted(graph)), st.sampled_from(STATUSES)))
    blockers = find_blockers(graph, selected, statuses)
    models = {name for name, node in graph.items() if not node.is_test}
    assert set(blockers) == {name for name in models if not is_fine(graph, name, selected, statuses)}
    for cause in blockers.values():
        assert cause in selected
        assert statuses.get(cause) not in PASSED
    assert list_blocked(blockers, selected) == sorted((node, blockers[node]) for node in selected & set(blockers))


def test_failures_are_named_before_what_they_kept_from_running() -> None:
    graph = {
        "orders": BuildNode("orders", ()),
        "daily": BuildNode("daily", ("orders",)),
        "not_null": BuildNode("not_null", ("orders",), ("orders",), is_test=True),
        "unique": BuildNode("unique", ("daily",), ("daily",), is_test=True),
    }
    statuses = {"orders": "success", "not_null": "fail", "daily": "skipped", "unique": "skipped"}
    assert find_blockers(graph, set(graph), statuses) == {"orders": "not_null", "daily": "not_null"}


def a_node(unique_id: str, kind: str, *parents: str, **more: Any) -> Any:
    return SimpleNamespace(unique_id=unique_id, resource_type=kind, depends_on_nodes=list(parents), **more)


def test_graph_of_a_manifest() -> None:
    manifest = SimpleNamespace(
        nodes={
            node.unique_id: node
            for node in (
                a_node("model.a", "model", "source.s"),
                a_node("model.b", "model", "model.a"),
                a_node("test.known", "test", "model.b", "model.a", attached_node="model.b"),
                a_node("test.both", "test", "model.a", "model.b", attached_node=None),
                a_node("test.of_source", "test", "source.s", attached_node=None),
                a_node("operation.hook", "operation"),
            )
        },
        unit_tests={"unit_test.b": a_node("unit_test.b", "unit_test", "model.b")},
    )
    graph = read_graph(manifest)
    assert {name: node.subjects for name, node in graph.items()} == {
        "model.a": (),
        "model.b": (),
        "test.known": ("model.b",),
        "test.both": ("model.a", "model.b"),
        "test.of_source": ("source.s",),
        "unit_test.b": ("model.b",),
    }
    assert find_blockers(graph, set(graph), dict.fromkeys(graph, "pass") | {"test.of_source": "fail"}) == {
        "source.s": "test.of_source",
        "model.a": "test.of_source",
        "model.b": "test.of_source",
    }


GRAPH = {
    node.unique_id: node
    for node in (
        BuildNode("model.shop.orders", ()),
        BuildNode("model.shop.other", ()),
        BuildNode("test.shop.not_null", ("model.shop.orders",), ("model.shop.orders",), is_test=True),
        BuildNode("test.shop.refers", ("model.shop.other", "model.shop.orders"), ("model.shop.other",), is_test=True),
    )
}


def test_tests_of_a_node_that_is_not_published_run_again_with_it() -> None:
    reasons = dict(list_unpublished(GRAPH, [("model.shop.orders", "no")]))
    assert reasons == dict.fromkeys(("model.shop.orders", "test.shop.not_null"), "no")


def test_what_failed_keeps_its_status_and_what_passed_unpublished_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "run_results.json"
    results = [
        {"unique_id": "a", "status": "success", "message": "OK", "failures": None},
        {"unique_id": "b", "status": "pass", "message": None, "failures": 0},
        {"unique_id": "c", "status": "fail", "message": "Got 1 result", "failures": 1},
        {"unique_id": "d", "status": "success", "message": "OK", "failures": None},
    ]
    file.write_text(json.dumps({"args": {"which": "build"}, "results": results}))
    mark_unpublished(file, dict.fromkeys("abc", "not published"))
    content = json.loads(file.read_text())
    shown = {result["unique_id"]: (result["status"], result["message"]) for result in content["results"]}
    assert shown == {
        "a": ("skipped", "not published"),
        "b": ("skipped", "not published"),
        "c": ("fail", "Got 1 result"),
        "d": ("success", "OK"),
    }
    assert content["args"] == {"which": "build"}
    assert [path.name for path in tmp_path.iterdir()] == ["run_results.json"]
