"""`catalogs.yml`: one integration, which is the profile's catalog."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.catalog_integrations.test_catalog_integration import BaseCatalogIntegrationValidation
from dbt.tests.util import run_dbt, write_config_file
from dbt_common.exceptions import DbtRuntimeError

MODEL = "{{ config(materialized='%s', catalog_name='warehouse', unique_key='id') }} select 1 as id"


def described(**changed: Any) -> dict[str, Any]:
    integration = {"name": "lake", "catalog_type": "iceberg", "table_format": "iceberg", **changed}
    return {"catalogs": [{"name": "warehouse", "write_integrations": [integration]}]}


class TestCatalogIntegration(BaseCatalogIntegrationValidation):
    @pytest.fixture(scope="class")
    def catalogs(self) -> dict[str, Any]:
        return described()

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {f"as_{kind}.sql": MODEL % kind for kind in ("table", "incremental", "arctic")}

    def test_models_name_the_profiles_catalog(self, project: Any) -> None:
        run_dbt(["run"])
        relations = project.adapter.catalog_reader.list_relations(project.test_schema)
        assert {"as_table", "as_incremental", "as_arctic"} <= set(relations)

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"name": "other"}, "expected: lake, as in the profile"),
            ({"catalog_type": "unity"}, "unity"),
            ({"external_volume": "s3"}, "`external_volume` of warehouse is not supported"),
            ({"file_format": "orc"}, "file_format orc"),
        ],
    )
    def test_another_catalog_is_refused(self, project: Any, changed: dict[str, Any], said: str) -> None:
        write_config_file(described(**changed), project.project_root, "catalogs.yml")
        with pytest.raises(DbtRuntimeError, match=said):
            run_dbt(["parse", "--no-partial-parse"])
