"""The suites' basics: every materialization, tests, documentation."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.basic import expected_catalog
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_get_catalog_for_single_relation import BaseGetCatalogForSingleRelation
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalBadStrategy,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.util import AnyInteger
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


class TestSingularTests(BaseSingularTests):
    pass


@pytest.mark.slow
class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


@pytest.mark.slow
class TestEmpty(BaseEmpty):
    pass


@pytest.mark.slow
class TestEphemeral(BaseEphemeral):
    pass


@pytest.mark.slow
class TestIncremental(BaseIncremental):
    pass


class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    pass


class TestIncrementalBadStrategy(BaseIncrementalBadStrategy):
    pass


class TestGenericTests(BaseGenericTests):
    pass


@pytest.mark.slow
class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


@pytest.mark.slow
class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


class TestAdapterMethod(BaseAdapterMethod):
    pass


@pytest.mark.slow
class TestTableMaterialization(BaseTableMaterialization):
    pass


class TestValidateConnection(BaseValidateConnection):
    pass


def stats_of_tables() -> dict[str, Any]:
    return {
        name: {"id": name, "label": name, "value": AnyInteger(), "description": description, "include": True}
        for name, description in (
            ("bytes", "Size of the data files"),
            ("rows", "Rows in the current snapshot"),
        )
    } | {"has_stats": {**expected_catalog.no_stats()["has_stats"], "value": True}}


def without_owners_of_views(expected: dict[str, Any]) -> dict[str, Any]:
    """The suites take one role for all; a view's metadata names no owner."""
    for node in expected["nodes"].values():
        if node["metadata"]["type"] == "view":
            node["metadata"]["owner"] = None
    return expected


class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any, profile_user: str) -> dict[str, Any]:
        expected = expected_catalog.base_expected_catalog(
            project,
            role=profile_user,
            id_type="bigint",
            text_type="string",
            time_type="timestamp",
            view_type="view",
            table_type="table",
            model_stats=expected_catalog.no_stats(),
            seed_stats=stats_of_tables(),
        )
        return without_owners_of_views(expected)


@pytest.mark.slow
class TestDocsGenReferences(BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any, profile_user: str) -> dict[str, Any]:
        expected = expected_catalog.expected_references_catalog(
            project,
            role=profile_user,
            id_type="bigint",
            text_type="string",
            time_type="timestamp",
            bigint_type="bigint",
            view_type="view",
            table_type="table",
            model_stats=stats_of_tables(),
            seed_stats=stats_of_tables(),
            view_summary_stats=expected_catalog.no_stats(),
        )
        return without_owners_of_views(expected)


class TestGetCatalogForSingleRelation(BaseGetCatalogForSingleRelation):
    @pytest.fixture(scope="class")
    def expected_catalog_my_seed(self, project: Any, profile_user: str) -> CatalogTable:
        return self.expected(project, profile_user, "my_seed", "table")

    @pytest.fixture(scope="class")
    def expected_catalog_my_view_model(self, project: Any) -> CatalogTable:
        return self.expected(project, None, "my_view_model", "view")

    def expected(self, project: Any, owner: str | None, name: str, kind: str) -> CatalogTable:
        types = {
            "id": "bigint",
            "first_name": "string",
            "email": "string",
            "ip_address": "string",
            "updated_at": "timestamp",
        }
        stats = {
            n: StatsItem(id=n, label=n, value=AnyInteger(), include=True, description=text)
            for n, text in (("bytes", "Size of the data files"), ("rows", "Rows in the current snapshot"))
            if kind == "table"
        }
        return CatalogTable(
            metadata=TableMetadata(type=kind, schema=project.test_schema, name=name, database="lake", owner=owner),
            columns={c: ColumnMetadata(type=t, index=i, name=c) for i, (c, t) in enumerate(types.items(), start=1)},
            stats=stats,
        )
