"""Tables that are copied by models, from run to run."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.simple_copy.test_copy_uppercase import BaseSimpleCopyUppercase
from dbt.tests.adapter.simple_copy.test_simple_copy import EmptyModelsArentRunBase, SimpleCopyBase
from dbt.tests.util import run_dbt

pytestmark = pytest.mark.slow


class TestSimpleCopy(SimpleCopyBase):
    def test_simple_copy_with_materialized_views(self, project: Any) -> None:
        """Iceberg has no materialized views, so what else is in the schema is a view of a view."""
        schema = project.test_schema
        project.run_sql(f"create table {schema}.unrelated_table (id int)")
        project.run_sql(f"create view {schema}.unrelated_view as select * from {schema}.unrelated_table")
        project.run_sql(f"create view {schema}.unrelated_upper as select * from {schema}.unrelated_view")
        assert len(run_dbt(["seed"])) == 1
        assert len(run_dbt()) == 7


class TestEmptyModelsArentRun(EmptyModelsArentRunBase):
    pass


class TestSimpleCopyUppercase(BaseSimpleCopyUppercase):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any]) -> dict[str, Any]:
        return profile_target
