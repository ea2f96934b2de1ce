"""Comments that dbt adds to queries."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.query_comment.test_query_comment import (
    BaseEmptyQueryComments,
    BaseMacroArgsQueryComments,
    BaseMacroInvalidQueryComments,
    BaseMacroQueryComments,
    BaseNullQueryComments,
    BaseQueryComments,
)
from dbt.tests.util import run_dbt
from pyspark.sql import SparkSession

from arctic_runtime.spark.engine.jobs import describe_jobs
from dbt.adapters.arctic.connections import handle


class TestQueryComments(BaseQueryComments):
    pass


@pytest.mark.slow
class TestMacroQueryComments(BaseMacroQueryComments):
    pass


@pytest.mark.slow
class TestMacroArgsQueryComments(BaseMacroArgsQueryComments):
    pass


@pytest.mark.slow
class TestMacroInvalidQueryComments(BaseMacroInvalidQueryComments):
    pass


@pytest.mark.slow
class TestNullQueryComments(BaseNullQueryComments):
    pass


@pytest.mark.slow
class TestEmptyQueryComments(BaseEmptyQueryComments):
    pass


class TestJobs:
    """Spark's pages show the same comment beside the jobs."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"query-comment": "run by {{ connection_name }}"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        kinds = ("table", "arctic")
        return {
            f"as_{kind}.sql": f"{{{{ config(materialized='{kind}', unique_key='id') }}}} select 1 as id"
            for kind in kinds
        }

    def test_jobs_are_described_by_the_comment_of_the_model_that_starts_them(
        self, project: Any, method: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server of Spark Connect shows none, so there it is enough that what asks for them does no harm."""
        shown = []

        def describe(session: SparkSession, text: str) -> None:
            describe_jobs(session, text)
            is_ours = method["method"] == "session"
            shown.append(session.sparkContext.getLocalProperty("spark.job.description") if is_ours else text)

        monkeypatch.setattr(handle, "describe_jobs", describe)
        run_dbt(["run"])
        assert {"run by model.test.as_table", "run by model.test.as_arctic"} <= set(shown)
