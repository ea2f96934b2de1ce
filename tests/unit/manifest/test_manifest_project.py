"""Manifests that dbt-core has written with dbt-duckdb and dbt-spark, as models of the runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.manifest_file import read_manifest
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.manifest.manifest_project import ManifestProject
from arctic_runtime.manifest.model_files import ManifestFile
from arctic_runtime.manifest.profile_file import ManifestTarget
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile

MANIFESTS = Path(__file__).parents[2] / "data" / "manifests"
ADAPTERS = ("duckdb", "spark")
Edit = Callable[[dict[str, Any]], object]


def load(adapter: str, tmp_path: Path, edit: Edit = lambda _: None, **schemas: str) -> ManifestModels:
    """The models of a stored manifest after an edit of its nodes."""
    written = json.loads((MANIFESTS / f"{adapter}.json").read_text())
    edit(written["nodes"])
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(written))
    return ManifestModels(read_manifest(file), target(tmp_path, **schemas))


def target(tmp_path: Path, **schemas: str) -> ManifestTarget:
    return ManifestTarget(Profile.for_embedded(tmp_path / "warehouse", catalog="lake"), schemas=schemas)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_models_with_our_keys_have_the_query_that_dbt_arctic_compiles(adapter: str, tmp_path: Path) -> None:
    models = load(adapter, tmp_path)
    orders = models.build_model("model.shop.dwd_orders")
    assert orders.table == TableName("lake", "dwd", "dwd_orders")
    assert orders.config.primary_key == ("order_id",)
    assert orders.sql == (
        "with __dbt__cte__customers as (\n\nselect customer_id, name from `lake`.`ods`.`customers`\n) "
        "-- every order with its customer\nselect o.order_id, o.customer_id, c.name, o.amount\n"
        "from `lake`.`ods`.`orders` o left join __dbt__cte__customers c using (customer_id)"
    )


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_model_of_events_reads_the_new_rows_that_the_macro_of_the_package_marks(adapter: str, tmp_path: Path) -> None:
    events = load(adapter, tmp_path).build_model("model.shop.ods_events")
    assert events.sql == "select order_id, amount, lsn from `changes(lake.ods.events)` -- not `lake`.`ods`.`orders`"
    assert (events.config.input, events.config.sequence_by) == ("changes", "lsn")


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_models_between_are_named_and_those_with_keys_alone_are_refreshed(adapter: str, tmp_path: Path) -> None:
    manifest = load(adapter, tmp_path).manifest
    managed = ["model.shop.dwd_orders", "model.shop.dws_customers", "model.shop.ods_events"]
    assert sorted(manifest.list_managed()) == managed
    assert manifest.list_unmanaged_parents(managed) == ["model.shop.orders_view"]


def test_schemas_of_the_manifest_are_mapped_to_those_of_the_catalog(tmp_path: Path) -> None:
    model = load("spark", tmp_path, dwd="prod", ods="raw").build_model("model.shop.dws_customers")
    assert model.table == TableName("lake", "prod", "dws_customers")
    assert "from `lake`.`prod`.`orders_view`" in model.sql


def test_masks_and_the_contract_of_a_node_apply(tmp_path: Path) -> None:
    def enforce(nodes: dict[str, Any]) -> None:
        node = nodes["model.shop.dws_customers"]
        node["config"]["contract"]["enforced"] = True
        node["columns"]["customer_id"] |= {"data_type": "bigint", "constraints": [{"type": "not_null"}]}

    model = load("spark", tmp_path, enforce).build_model("model.shop.dws_customers")
    assert model.masks == {"amount": True}
    assert model.not_null == ("customer_id",)


@pytest.mark.parametrize("folder", ["compiled", "compiled/shop"])
def test_a_manifest_of_dbt_v2_has_nulls_for_what_is_not_set_and_queries_in_files(folder: str, tmp_path: Path) -> None:
    expected = load("duckdb", tmp_path).build_model("model.shop.dwd_orders")

    def write_as_v2(nodes: dict[str, Any]) -> None:
        for node in nodes.values():
            config = node["config"]
            nothing = dict.fromkeys(("primary_key", "persist_docs", "contract", "on_schema_change"))
            config |= {**nothing, "meta": config["meta"] or None, "unique_key": None}
            node |= {"unrendered_config": None, "meta": None}
            node["depends_on"]["macros"] = []
            file = tmp_path / folder / node["original_file_path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(node.pop("compiled_code"))

    models = load("duckdb", tmp_path, write_as_v2)
    assert models.build_model("model.shop.dwd_orders") == expected
    assert "model.shop.orders_view" not in models.manifest.list_managed()
    assert models.manifest.read_compiled("test.shop.amounts") is not None
    assert models.manifest.read_compiled("test.shop.not_null_dws_customers_customer_id.5d8b0fea29") is None


def change(name: str, **parts: Any) -> Edit:
    return lambda nodes: nodes[f"model.shop.{name}"].update(parts)


def key(**keys: Any) -> Edit:
    return lambda nodes: nodes["model.shop.dwd_orders"]["config"].update(meta={"arctic": keys})


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change("dwd_orders", compiled_code=None), "dbt compile"),
        (change("dwd_orders", language="python"), "Python model"),
        (key(primary_kee="id"), "did you mean `primary_key`"),
        (key(merge="on_read"), "`primary_key` is missing"),
        (key(primary_key="order_id", on_failed_row="quarantine"), "quarantine"),
    ],
)
def test_a_model_that_can_not_be_refreshed_is_an_error_with_its_name(edit: Edit, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        load("duckdb", tmp_path, edit).build_model("model.shop.dwd_orders")
    assert "model.shop.dwd_orders" in str(raised.value)


@pytest.mark.parametrize("jinja", ["{% if is_incremental() %} where id > 5 {% endif %}", "{{ only_new_rows() }}"])
def test_an_incremental_model_is_refused_if_its_jinja_may_leave_out_rows(jinja: str, tmp_path: Path) -> None:
    def branch(nodes: dict[str, Any]) -> None:
        nodes["model.shop.dwd_orders"]["config"]["materialized"] = "incremental"
        nodes["model.shop.dwd_orders"]["raw_code"] += jinja

    with pytest.raises(ConfigError, match="materialized: table"):
        load("duckdb", tmp_path, branch).build_model("model.shop.dwd_orders")


def test_an_incremental_model_without_such_jinja_is_refreshed(tmp_path: Path) -> None:
    def make_incremental(nodes: dict[str, Any]) -> None:
        for name in ("dwd_orders", "ods_events"):
            nodes[f"model.shop.{name}"]["config"]["materialized"] = "incremental"

    models = load("duckdb", tmp_path, make_incremental)
    assert models.build_model("model.shop.dwd_orders").config.primary_key == ("order_id",)
    assert models.build_model("model.shop.ods_events").config.input == "changes"


def test_a_written_manifest_is_read_again_and_a_missing_one_is_waited_for(tmp_path: Path) -> None:
    file = load("spark", tmp_path).manifest.file
    project = ManifestProject(ManifestFile(file), target(tmp_path), ["dwd_orders"])
    assert not project.has_changed()
    text = file.read_text()
    file.unlink()
    assert not project.has_changed()
    file.write_text(text.replace('"order_id"', '"customer_id"') + "\n")
    assert project.has_changed()
    (orders,) = project.load_models()
    assert orders.model.config.primary_key == ("customer_id",)
    assert not project.has_changed()


def test_a_manifest_that_is_half_written_keeps_the_models_before_and_is_told_once(tmp_path: Path) -> None:
    file, warned = load("spark", tmp_path).manifest.file, list[str]()
    project = ManifestProject(ManifestFile(file), target(tmp_path), ["dwd_orders"], warn=warned.append)
    before, text = project.list_followed(), file.read_text()
    file.write_text(text[:100])
    assert project.has_changed()
    assert project.load_models() is None
    assert not project.has_changed()
    assert [project.list_followed(), len(warned)] == [before, 1]
    file.write_text(text)
    assert project.has_changed()
    assert project.load_models() == before


def test_what_is_left_to_dbt_is_named_once(tmp_path: Path) -> None:
    def hook(nodes: dict[str, Any]) -> None:
        nodes["model.shop.dws_customers"]["config"]["post-hook"] = [{"sql": "select 1"}]

    file, warned = load("spark", tmp_path, hook).manifest.file, list[str]()
    project = ManifestProject(ManifestFile(file), target(tmp_path), ["dws_customers"], warn=warned.append)
    assert project.load_models() is not None
    assert warned == [
        "lake.dwd.orders_view is read as it is: dbt makes this view",
        "model.shop.dws_customers: its hooks are not run",
    ]


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"nodes": {"a": 1}, "sources": {}, "metadata": {}}'])
def test_a_file_that_is_no_manifest_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match="no manifest"):
        read_manifest(file)


def test_a_manifest_that_is_missing_is_an_error_that_says_who_writes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dbt compile"):
        read_manifest(tmp_path / "manifest.json")
