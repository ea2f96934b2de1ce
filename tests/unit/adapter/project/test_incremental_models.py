"""Incremental models of a project, compiled without Spark as a full refresh and as the next run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from arctic_runtime.audit.audited_model import AuditedModel, AuditedProject
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from dbt.adapters.arctic import cli
from dbt.adapters.arctic.project.incremental_models import compile_audited_project, is_incremental
from dbt.adapters.arctic.project.loaded_project import Location, load_nodes

FILES = {
    "dbt_project.yml": "name: shop\nprofile: shop\nversion: '1.0'\n",
    "models/orders.sql": """{{ config(materialized='incremental', unique_key=['id', 'day'], full_refresh=false) }}
        select * from {{ ref('stage') }} {% if is_incremental() %} where id > 1 {% endif %}""",
    "models/stage.sql": "{{ config(materialized='ephemeral') }} select id, 1 as day from {{ ref('raw_view') }}",
    "models/raw_view.sql": "{{ config(materialized='view') }} select 1 as id",
    "models/unbuilt.sql": "{{ config(materialized='incremental', unique_key=\"id || 'x'\") }} select 1 as id",
    "models/tested.sql": "{{ config(materialized='incremental') }} select id from {{ ref('orders') }}",
    "models/half_tested.sql": "{{ config(materialized='incremental') }} select 1 as id",
    "models/agreed.sql": """{{ config(materialized='incremental', contract={'enforced': true},
        on_schema_change='fail') }} select 1 as id""",
    "models/kept.sql": """{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge',
        merge_exclude_columns=['at']) }} select 1 as id, 2 as at""",
    "models/creating.sql": """{{ config(materialized='incremental') }}
        {% if execute %} {% do run_query('create table t (id int)') %} {% endif %} select 1 as id""",
    "models/broken.sql": """{{ config(materialized='incremental') }}
        {{ exceptions.raise_compiler_error('no') if execute }}""",
    "models/by_python.py": """
def model(dbt, session):
    dbt.config(materialized='incremental')
    return dbt.ref('orders')
""",
    "models/schema.yml": """
models:
  - name: tested
    columns: [{name: id, data_tests: [unique, not_null]}]
  - name: half_tested
    columns: [{name: id, data_tests: [unique]}]
  - name: agreed
    columns: [{name: id, data_type: int, constraints: [{type: primary_key}, {type: not_null}]}]
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    warehouse = folder / "warehouse"
    outputs = {
        "dev": {"type": "arctic", "warehouse": str(warehouse), "schema": "dwd"},
        "elsewhere": {"type": "arctic", "warehouse": str(folder / "elsewhere"), "schema": "dwd"},
    }
    (folder / "profiles.yml").write_text(json.dumps({"shop": {"target": "dev", "outputs": outputs}}))
    reader = CatalogReader(Profile.for_embedded(warehouse))
    reader.create_namespace("dwd")
    reader.catalog.create_table(("dwd", "orders"), Schema(NestedField(1, "id", LongType(), required=False)))
    return folder


@pytest.fixture(scope="module")
def project(folder: Path) -> AuditedProject:
    loaded = load_nodes(Location(folder, folder), is_incremental)
    with loaded.adapter.connections.refuse_changes():
        return compile_audited_project(loaded)


@pytest.fixture
def models(project: AuditedProject) -> dict[str, AuditedModel]:
    return {model.name: model for model in project.models}


def test_a_model_is_compiled_both_ways_whatever_its_configuration_says(models: dict[str, AuditedModel]) -> None:
    orders = models["orders"]
    assert orders.full_sql is not None
    assert "where" not in orders.full_sql
    assert orders.incremental_sql is not None
    assert "where id > 1" in orders.incremental_sql


def test_a_model_comes_after_those_that_it_reads(project: AuditedProject) -> None:
    names = [model.name for model in project.models]
    assert names.index("orders") < names.index("tested")
    assert names.index("orders") < names.index("by_python")


def test_views_above_ephemeral_models_are_upstreams(project: AuditedProject) -> None:
    (orders,) = (model for model in project.models if model.name == "orders")
    (above,) = (project.others[name] for name in orders.upstreams)
    assert (above.name, above.is_view, above.sql) == ("raw_view", True, " select 1 as id")


def test_keys_are_those_that_the_project_declares(models: dict[str, AuditedModel]) -> None:
    found = {name: (model.key, model.key_source) for name, model in models.items()}
    assert found["orders"] == (("id", "day"), "unique_key")
    assert found["agreed"] == (("id",), "constraint")
    assert found["tested"] == (("id",), "tests")
    assert found["half_tested"] == found["unbuilt"] == ((), "none")


def test_how_a_model_is_written_is_read(models: dict[str, AuditedModel]) -> None:
    assert (models["kept"].strategy, models["kept"].has_unique_key) == ("merge", True)
    assert models["kept"].kept_columns == ("at",)
    assert (models["tested"].strategy, models["tested"].has_unique_key) == ("append", False)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("creating", "writes nothing"), ("broken", "no"), ("by_python", "Python model")],
)
def test_a_model_without_a_query_says_why(models: dict[str, AuditedModel], name: str, reason: str) -> None:
    assert models[name].full_sql is None
    assert reason in models[name].error


def test_an_audit_of_nothing_is_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
    files = {file for file in folder.rglob("*") if "warehouse" not in file.parts}
    assert cli.main(["audit", *where, "--select", "raw_view"]) == 2
    assert "no incremental model is selected" in capsys.readouterr().err
    assert cli.main(["audit", *where, "--target", "elsewhere"]) == 2
    assert "the warehouse has no catalog" in capsys.readouterr().err
    assert {file for file in folder.rglob("*") if "warehouse" not in file.parts} == files
