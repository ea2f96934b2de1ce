"""Grants, which no Iceberg catalog keeps for Spark: asking for them is an error before anything is built."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt

MODEL = "{{ config(materialized='%s', unique_key='id', grants={'select': ['reader']}) }} select 1 as id"
SNAPSHOT = """
snapshots:
  - name: as_snapshot
    relation: ref('plain')
    config: {unique_key: id, strategy: check, check_cols: all, grants: {select: [reader]}}
"""


class TestGrantsAreRefused:
    KINDS = ("table", "view", "incremental", "arctic")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {f"as_{kind}.sql": MODEL % kind for kind in self.KINDS} | {"plain.sql": "select 1 as id"}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOT}

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"as_seed.csv": "id\n1\n"}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"+grants": {"select": ["reader"]}}}

    def test_each_says_where_to_give_access_instead_and_makes_nothing(self, project: Any) -> None:
        results = run_dbt(["build"], expect_pass=False)
        refused = {result.node.name: result.message for result in results if result.status == "error"}
        assert set(refused) == {"as_seed", "as_snapshot", *[f"as_{kind}" for kind in self.KINDS]}
        for name, message in refused.items():
            assert f"`{name}`, and this catalog has none: remove `grants`, and give access in the catalog" in message
        assert set(project.adapter.catalog_reader.list_relations(project.test_schema)) == {"plain"}
