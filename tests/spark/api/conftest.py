"""A dbt project over a table of the test's own, for the Spark that the suites share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.spark.warehouse import Warehouse

MODELS = {
    "legs": "{{ config(materialized='arctic', primary_key='id') }} select id, tail from {{ source('ops', 'landing') }}",
    "tails": "{{ config(materialized='arctic', primary_key='tail', post_hook='select 1') }} "
    "select tail, count(*) as legs from {{ ref('legs') }} group by tail",
}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, lake: Warehouse) -> Path:
    """A project of two models, one with a hook, over a table of two rows."""
    profile = lake.environment.profile
    output: dict[str, Any] = {"type": "arctic", "schema": lake.namespace, "method": profile.method}
    output |= {"warehouse": profile.catalog_properties["warehouse"]} | ({"url": profile.url} if profile.url else {})
    output |= {"server_side_parameters": dict(profile.settings)}
    source = {"name": "ops", "schema": lake.namespace, "tables": [{"name": "landing"}]}
    files: dict[str, Any] = {
        "dbt_project.yml": {"name": "shop", "version": "1.0", "profile": "shop"},
        "profiles.yml": {"shop": {"target": "dev", "outputs": {"dev": output}}},
        "models/sources.yml": {"sources": [source]},
    }
    tmp_path = tmp_path_factory.mktemp("project")
    (tmp_path / "models").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(yaml.safe_dump(content))
    for name, sql in MODELS.items():
        (tmp_path / "models" / f"{name}.sql").write_text(sql)
    lake.load("landing", [(1, "N1"), (2, "N1")], "id bigint, tail string")
    return tmp_path
