"""Which branch a command reads, and which files of branches a build removes."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.catalog.branch.catalog_pointers import Pointer, PointerChange, sort_changes
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.publication.blockers import BuildNode, sort_nodes
from dbt.adapters.arctic.publication.build import (
    BRANCH_COMMANDS,
    build_scope,
    check_flags,
    list_read,
    open_branch,
    remove_old_branches,
)


def test_a_command_that_reads_gets_the_branch(tmp_path: Path) -> None:
    profile = Profile.for_embedded(tmp_path / "lake")
    file = tmp_path / "7-a.db"
    file.touch()
    opened = open_branch(profile, file, "show")
    assert opened.sqlite_file == file
    assert opened.is_branch
    assert opened.catalog_properties["warehouse"] == profile.catalog_properties["warehouse"]


@pytest.mark.parametrize("command", sorted(BRANCH_COMMANDS))
def test_a_build_does_not_stand_on_a_branch(tmp_path: Path, command: str) -> None:
    (tmp_path / "7-a.db").touch()
    with pytest.raises(DbtRuntimeError, match="can't write to the branch"):
        open_branch(Profile.for_embedded(tmp_path / "lake"), tmp_path / "7-a.db", command)


def test_a_missing_branch(tmp_path: Path) -> None:
    with pytest.raises(DbtRuntimeError, match="names no branch"):
        open_branch(Profile.for_embedded(tmp_path / "lake"), tmp_path / "none.db", "show")


def test_branches_of_running_builds_stay(tmp_path: Path) -> None:
    parent = os.getppid()
    for name in (f"{parent}-a.db", f"{os.getpid()}-b.db", "999999999-c.db", "999999999-c.db-wal", "x.db"):
        (tmp_path / name).touch()
    remove_old_branches(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [f"{parent}-a.db"]


def test_a_command_that_would_begin_no_build_is_refused() -> None:
    """dbt asks an adapter for its relations, at which a build begins, unless it is told not to."""
    check_flags(SimpleNamespace(WHICH="build", POPULATE_CACHE=True))
    check_flags(SimpleNamespace(WHICH="show", POPULATE_CACHE=False))
    with pytest.raises(DbtRuntimeError, match="leave the flag out"):
        check_flags(SimpleNamespace(WHICH="build", POPULATE_CACHE=False))


def test_what_a_node_reads_through_a_view_is_read_by_it() -> None:
    def make_node(name: str, materialized: str, *parents: str) -> SimpleNamespace:
        config = SimpleNamespace(materialized=materialized)
        return SimpleNamespace(name=name, resource_type="model", config=config, depends_on_nodes=parents)

    nodes = {
        node.name: node
        for node in (
            make_node("below", "table", "seen", "other"),
            make_node("seen", "view", "source", "other"),
            make_node("other", "table", "far"),
            make_node("far", "table"),
        )
    }
    manifest = SimpleNamespace(nodes=nodes, sources={"source": SimpleNamespace(name="source", resource_type="source")})
    assert sorted(node.name for node in list_read([nodes["below"]], manifest)) == ["other", "seen", "source"]


@pytest.mark.parametrize("publish", ["model", "build"])
def test_publish(tmp_path: Path, publish: str) -> None:
    ArcticCredentials(database="lake", schema="dws", warehouse=str(tmp_path), publish=publish)


def test_unknown_publish(tmp_path: Path) -> None:
    with pytest.raises(DbtRuntimeError, match="`publish` is 'all'"):
        ArcticCredentials(database="lake", schema="dws", warehouse=str(tmp_path), publish="all")


REST = {"type": "rest", "uri": "http://x"}
HADOOP = {"type": "hadoop", "warehouse": "/w"}


def test_publish_with_another_catalog() -> None:
    ArcticCredentials(database="lake", schema="dws", catalog_config=REST, publish="build")
    with pytest.raises(DbtRuntimeError, match="publish: build"):
        ArcticCredentials(database="lake", schema="dws", catalog_config=HADOOP, publish="build")


def test_changes_are_published_in_the_order_of_the_graph() -> None:
    graph = {name: BuildNode(name, parents) for name, parents in (("b", ("a",)), ("a", ()), ("c", ("a", "b", "x")))}
    assert sort_nodes(graph) == ["a", "b", "c"]
    tables = {name: TableName("lake", "dwd", name) for name in ("a", "b", "b__changes", "b__base", "hooked")}
    changes = [
        PointerChange(table, None, Pointer(table, "VIEW" if name == "b" else "TABLE", "f"))
        for name, table in tables.items()
    ]
    places = {tables["a"]: 0, **{tables[name]: 1 for name in ("b", "b__changes", "b__base")}}
    ordered = [change.table.name for change in sort_changes(changes, places)]
    assert ordered == ["hooked", "a", "b__changes", "b__base", "b"]


def test_the_scope_has_relations_and_schemas_of_the_catalog() -> None:
    seed = SimpleNamespace(resource_type="seed", unique_id="s", database="lake", schema="dwd", alias="x")
    check = SimpleNamespace(resource_type="test", unique_id="t", database="lake", schema="audit", alias="y")
    operation = SimpleNamespace(resource_type="operation", unique_id="o", database="other", schema="dwd", alias="z")
    sources = [
        SimpleNamespace(database=database, schema="raw", identifier="orders", name="o") for database in ("lake", "hive")
    ]
    scope = build_scope([seed, check, operation], sources, "lake")
    assert set(scope.relations) == {TableName("lake", "dwd", "x"), TableName("lake", "raw", "orders")}
    assert scope.target_schemas == {"dwd", "audit"}
    assert scope.schemas == ["audit", "dwd", "raw"]
