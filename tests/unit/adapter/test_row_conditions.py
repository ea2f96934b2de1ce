"""Tests that a project declares, as conditions of the rows of its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.materialize.row_conditions import RowConditions
from dbt.adapters.arctic.project.environments import list_manifest_nodes, read_state_nodes
from dbt.adapters.arctic.project.live_project import LiveProject
from dbt.adapters.arctic.project.loaded_project import Location, load_nodes
from dbt.adapters.arctic.publication.build import map_owners

ORDERS = """{{ config(materialized='arctic', primary_key='id', on_failed_row='quarantine') }}
select id, amount, state from {{ source('raw', 'orders') }}"""
YAML = """
sources: [{name: raw, schema: ods, tables: [{name: orders}]}]
models:
  - name: orders
    columns:
      - name: id
        data_tests: [unique, not_null]
      - name: amount
        data_tests:
          - not_null: {name: known, config: {where: "state <> '{{ var('draft', 'draft') }}'"}}
          - not_null: {name: warned, config: {severity: warn}}
          - not_null: {name: tolerant, config: {error_if: ">10"}}
          - not_null: {name: counted, config: {fail_calc: "sum(n)"}}
          - not_null: {name: disabled, config: {enabled: false}}
          - positive
      - name: state
        data_tests:
          - accepted_values: {name: listed, arguments: {values: [paid, 1]}}
"""
POSITIVE = """{% test positive(model, column_name) %}
select 1 from {{ model }} where not({{ column_name }} >= 0)
{% endtest %}"""
ORDERS_TABLE = TableName("lake", "dws", "orders")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    flags = "flags: {require_generic_test_arguments_property: true}"
    target = f"{{type: arctic, schema: dws, warehouse: {tmp_path / 'warehouse'}}}"
    files = {
        "dbt_project.yml": f"{{name: shop, version: '1.0', profile: shop, {flags}}}",
        "profiles.yml": f"shop: {{target: dev, outputs: {{dev: {target}}}}}",
        "models/orders.sql": ORDERS,
        "models/schema.yml": YAML,
        "macros/positive.sql": POSITIVE,
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return tmp_path


def list_conditions(folder: Path) -> dict[str, str]:
    manifest = load_nodes(Location(folder, folder), lambda _: True).manifest
    found = RowConditions(manifest).list_conditions("model.shop.orders")
    return {condition.test: condition.passes for condition in found}


def test_tests_that_are_conditions(folder: Path) -> None:
    known = "(NOT coalesce((state <> 'draft'), FALSE) OR ((amount) IS NOT NULL))"
    listed = "coalesce((state) IN ('paid', '1'), TRUE)"
    assert list_conditions(folder) == {"known": known, "listed": listed}
    assert RowConditions(load_nodes(Location(folder, folder), lambda _: True).manifest).list_conditions("other") == ()


@pytest.mark.parametrize(
    ("macro", "left"),
    [
        ("default__test_not_null(model, column_name)", {"listed"}),
        ("arctic__test_accepted_values(model, column_name, values, quote=true)", {"known"}),
        ("get_where_subquery(relation)", {"listed"}),
    ],
)
def test_macros_that_a_project_replaces(folder: Path, macro: str, left: set[str]) -> None:
    """A test of which it is not known what it looks at is left to dbt."""
    (folder / "macros" / "own.sql").write_text(f"{{% macro {macro} %}}select 1{{% endmacro %}}")
    assert set(list_conditions(folder)) == left


def test_parts_of_a_followed_project(folder: Path) -> None:
    """Everything that lists the tables of a project has the quarantine among them."""
    project = LiveProject(Location(folder, folder), print)
    (followed,) = project.list_followed()
    failed, model = followed.model.parts
    assert [listed.table for listed in project.list_models()] == [ORDERS_TABLE, ORDERS_TABLE.quarantine]
    assert "'listed'" in failed.sql
    assert "`_failed_tests`" not in model.sql
    owners = map_owners(project.loaded.manifest)
    names = (ORDERS_TABLE, ORDERS_TABLE.quarantine, ORDERS_TABLE.quarantine.changes, ORDERS_TABLE.quarantine.base)
    assert {owners[name] for name in names} == {"model.shop.orders"}
    readers = Readers(project.loaded.manifest.nodes.values(), project.loaded.manifest.sources.values())
    assert readers.list_readers(TableName("lake", "ods", "orders")) == (ORDERS_TABLE, ORDERS_TABLE.quarantine)


def test_quarantines_of_another_environment(folder: Path) -> None:
    """A quarantine is compared with the other environment's, also if this is known by its stored manifest alone."""
    project = LiveProject(Location(folder, folder), print)
    graph, other = project.graph, folder / "state"
    other.mkdir()
    manifest = project.loaded.manifest
    for node in manifest.nodes.values():
        node.schema = "prod"
    manifest.write(str(other / "manifest.json"))
    for nodes in (list_manifest_nodes(manifest), read_state_nodes("state", folder)):
        counterparts = graph.find_counterparts(nodes)
        wanted = TableName("lake", "prod", "orders")
        assert counterparts[ORDERS_TABLE].table == wanted
        assert counterparts[ORDERS_TABLE.quarantine].table == wanted.quarantine
    below = graph.list_descendants([TableName("lake", "ods", "orders")])
    assert below == (ORDERS_TABLE, ORDERS_TABLE.quarantine)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        (
            "orders.py",
            "def model(dbt, session):\n    return session.sql('select 1 as id')",
            "needs a query",
        ),
        ("orders__quarantine.sql", ORDERS, "the quarantine of model.shop.orders"),
        ("orders__quarantine__changes.sql", ORDERS, "the change table of the quarantine of model.shop.orders"),
        ("orders.sql", ORDERS.replace("'quarantine'", "'drop'"), "`on_failed_row` must be"),
        ("orders.sql", ORDERS.replace("'id'", "none, input='changes'"), "with `input: changes` it returns events"),
    ],
)
def test_refused_projects(folder: Path, file: str, text: str, says: str) -> None:
    if file == "orders.py":
        (folder / "models" / "orders.sql").unlink()
        (folder / "models" / "schema.yml").write_text(
            "models: [{name: orders, config: {materialized: arctic, primary_key: id, on_failed_row: quarantine}}]"
        )
    (folder / "models" / file).write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_nodes(Location(folder, folder), lambda _: True)
