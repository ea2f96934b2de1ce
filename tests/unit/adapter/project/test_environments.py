"""Other environments of a project: the nodes of a manifest, what is below them, and their masks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.masks import read_masks
from arctic_runtime.manifest.project_graph import ProjectGraph, ProjectNode
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.profile import Profile
from dbt.adapters.arctic.project import counterparts
from dbt.adapters.arctic.project.environments import list_manifest_nodes, read_state_nodes
from dbt.adapters.arctic.project.project_tables import CompiledProject


def table(name: str, schema: str = "dev", catalog: str = "lake") -> TableName:
    return TableName(catalog, schema, name)


def build_node(name: str, *parents: str, schema: str = "dev", alias: str = "") -> ProjectNode:
    return ProjectNode(
        f"model.shop.{name}", table(alias or name, schema), tuple(f"model.shop.{part}" for part in parents)
    )


GRAPH = ProjectGraph(
    [build_node("a"), build_node("b", "a"), build_node("c", "b"), build_node("d", "a", "c"), build_node("e")]
)


def write_state(folder: Path, catalog: str = "lake", **schemas: str) -> None:
    nodes: dict[str, Any] = {
        f"model.shop.{name}": {
            "resource_type": "model",
            "database": catalog,
            "schema": schema,
            "alias": f"{name}_prod",
            "depends_on": {"nodes": []},
            "columns": {"Mail": {"meta": {"mask": True}}},
        }
        for name, schema in schemas.items()
    }
    nodes["test.shop.t"] = {"resource_type": "test"}
    source = {"resource_type": "source", "database": catalog, "schema": "raw", "identifier": "r", "columns": {}}
    folder.mkdir()
    text = json.dumps({"nodes": nodes, "sources": {"source.shop.raw.r": source}})
    (folder / "manifest.json").write_text(text, encoding="utf-8")


def test_descendants_are_all_tables_below() -> None:
    assert GRAPH.list_descendants([table("a")]) == (table("b"), table("c"), table("d"))
    assert GRAPH.list_descendants([table("c"), table("e")]) == (table("d"),)
    assert GRAPH.list_descendants([table("unknown")]) == ()


@given(edges=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda edge: edge[0] < edge[1])))
def test_descendants_are_what_can_be_reached(edges: set[tuple[int, int]]) -> None:
    nodes = [build_node(str(n), *(str(up) for up, down in edges if down == n)) for n in range(7)]
    reached = {0}
    for _ in range(7):
        reached |= {down for up, down in edges if up in reached}
    assert ProjectGraph(nodes).list_descendants([table("0")]) == tuple(table(str(n)) for n in sorted(reached - {0}))


def test_a_state_has_the_schema_and_alias_of_each_model_there(tmp_path: Path) -> None:
    write_state(tmp_path / "state", a="prod", b="prod_marts", other="prod")
    found = GRAPH.find_counterparts(read_state_nodes("state", tmp_path))
    masks = {"mail": True}
    assert found == {
        table("a"): Counterpart(table("a_prod", "prod"), masks),
        table("b"): Counterpart(table("b_prod", "prod_marts"), masks),
    }
    absolute = str(tmp_path / "state")
    assert GRAPH.find_counterparts(read_state_nodes(absolute, Path("elsewhere"))) == found


def test_a_state_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`--state` state has no manifest that can be read") as raised:
        read_state_nodes("state", tmp_path)
    assert raised.value.where == str(tmp_path / "state" / "manifest.json")
    (tmp_path / "state").mkdir()
    for text in ("{", "[]", "{}", '{"nodes": {"a": {}}, "sources": {}}'):
        (tmp_path / "state" / "manifest.json").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="a manifest that can't be read"):
            read_state_nodes("state", tmp_path)


def test_another_catalog_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Profile.for_embedded(tmp_path / "one")
    project = CompiledProject(own, (), graph=GRAPH)
    write_state(tmp_path / "state", "pond", a="prod")
    with pytest.raises(ConfigError, match="different catalogs") as raised:
        counterparts.find_counterparts(project, tmp_path, None, "state", None)
    assert raised.value.actual == "pond"
    manifest = SimpleNamespace(nodes={}, sources={})
    monkeypatch.setattr(counterparts, "parse_manifest", lambda *_: manifest)
    for other in (Profile.for_embedded(tmp_path / "two"), Profile.for_embedded(tmp_path / "one", catalog="pond")):
        monkeypatch.setattr(counterparts, "load_profile", lambda *_, profile=other: profile)
        with pytest.raises(ConfigError, match="different catalogs"):
            counterparts.find_counterparts(project, tmp_path, None, None, "prod")
    monkeypatch.setattr(counterparts, "load_profile", lambda *_: own)
    assert counterparts.find_counterparts(project, tmp_path, None, None, "prod") == {}


def test_nodes_of_a_parsed_manifest_have_a_table() -> None:
    model = SimpleNamespace(
        unique_id="model.shop.a",
        resource_type="model",
        database="lake",
        schema="dev",
        alias="a",
        depends_on_nodes=["source.shop.raw.r"],
        columns={"n": SimpleNamespace(meta={}, config=SimpleNamespace(meta={"mask": True}))},
    )
    test = SimpleNamespace(unique_id="test.shop.t", resource_type="test")
    source = SimpleNamespace(
        unique_id="source.shop.raw.r", resource_type="source", database="lake", schema="raw", identifier="r", columns={}
    )
    manifest = SimpleNamespace(nodes={"a": model, "t": test}, sources={"r": source})
    assert list_manifest_nodes(manifest) == [
        ProjectNode("model.shop.a", table("a"), ("source.shop.raw.r",), {"n": True}),
        ProjectNode("source.shop.raw.r", table("r", "raw")),
    ]


@pytest.mark.parametrize(
    ("node", "masks"),
    [
        ({}, {}),
        ({"columns": {"A": {"meta": {"mask": True}}, "b": {"meta": {}}}}, {"a": True}),
        ({"columns": {"a": {"config": {"meta": {"mask": True}}}}}, {"a": True}),
        ({"columns": {"a": {"meta": {"mask": False}, "config": {"meta": {"mask": True}}}}}, {"a": True}),
        ({"columns": {"a": {"meta": {"mask": False}}}}, {"a": False}),
        ({"columns": {"a": {"meta": {"mask": "yes"}}}}, {"a": True}),
        ({"meta": {"mask": True}, "columns": {"a": {"meta": {"mask": False}}}}, {"*": True, "a": False}),
        ({"config": {"meta": {"mask": True}}}, {"*": True}),
    ],
)
def test_masks_are_read_from_meta_of_nodes_and_columns(node: dict[str, Any], masks: dict[str, bool]) -> None:
    assert read_masks(node) == masks
