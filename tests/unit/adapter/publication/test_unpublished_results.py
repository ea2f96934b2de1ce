"""Results of nodes that were not published: they, and their tests, have to run again."""

from __future__ import annotations

import json
from pathlib import Path

from dbt.adapters.arctic.publication.blockers import BuildNode
from dbt.adapters.arctic.publication.unpublished_results import list_unpublished, mark_unpublished

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
