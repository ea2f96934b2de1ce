"""What the documentation calls relations."""

from __future__ import annotations

import pytest
from dbt.artifacts.schemas.catalog import CatalogArtifact
from dbt.tests.adapter.catalog import files
from dbt.tests.adapter.catalog.relation_types import CatalogRelationTypes


class TestCatalogRelationTypes(CatalogRelationTypes):
    @pytest.fixture(scope="class", autouse=True)
    def models(self) -> dict[str, str]:
        key = "materialized='arctic', primary_key='id',"
        return {
            "my_table.sql": files.MY_TABLE,
            "my_view.sql": files.MY_VIEW,
            "my_arctic.sql": files.MY_TABLE.replace("materialized='table',", key),
        }

    @pytest.mark.parametrize(
        ("node_name", "relation_type"),
        [
            ("seed.test.my_seed", "table"),
            ("model.test.my_table", "table"),
            ("model.test.my_view", "view"),
            ("model.test.my_arctic", "arctic table"),
        ],
    )
    def test_relation_types_populate_correctly(self, docs: CatalogArtifact, node_name: str, relation_type: str) -> None:
        """An arctic table has the place of the suite's materialized view."""
        super().test_relation_types_populate_correctly(docs, node_name, relation_type)
