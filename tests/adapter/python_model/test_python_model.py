"""Models in Python."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.python_model.test_python_model import (
    BasePythonEmptyTests,
    BasePythonIncrementalTests,
    BasePythonMetaGetTests,
    BasePythonModelTests,
    BasePythonSampleTests,
)
from dbt.tests.adapter.python_model.test_spark import PANDAS_MODEL, PYSPARK_MODEL, BasePySparkTests
from dbt.tests.util import run_dbt, write_file


@pytest.mark.slow
class TestPythonModel(BasePythonModelTests):
    pass


@pytest.mark.slow
class TestPythonIncremental(BasePythonIncrementalTests):
    pass


@pytest.mark.slow
class TestPythonMetaGet(BasePythonMetaGetTests):
    pass


@pytest.mark.slow
class TestPythonEmpty(BasePythonEmptyTests):
    pass


@pytest.mark.slow
class TestPythonSample(BasePythonSampleTests):
    pass


@pytest.mark.slow
class TestPySpark(BasePySparkTests):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "pandas_df.py": PANDAS_MODEL,
            "pyspark_df.py": PYSPARK_MODEL,
        }

    def test_different_dataframes(self, project: Any) -> None:
        """Koalas ended before Spark 4, and pandas on Spark can't be imported beside the newest pandas."""
        assert len(run_dbt(["run"])) == 2


KIND = """
def model(dbt, session):
    dbt.config(materialized='{kind}', unique_key='id')
    session.conf.set('spark.sql.ansi.enabled', 'false')
    return dbt.ref('up').filter('id <> 2').withColumnRenamed('a b', 'x.y')
"""
UP = "{{ config(materialized='table', alias='it`s') }} select id, id * {{ var('times', 1) }} as `a b` from range(3)"
FAILS = """
def model(dbt, session):
    rows = dbt.ref('up')
    return %s
"""


class TestPythonKinds:
    """A Python model's rows take the way of every other model's."""

    KINDS = ("table", "incremental", "arctic")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"up.sql": UP} | {f"as_{kind}.py": KIND.format(kind=kind) for kind in self.KINDS}

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project: Any) -> None:
        run_dbt(["run"])

    def rows(self, project: Any, kind: str) -> list[tuple[Any, ...]]:
        return sorted(project.run_sql(f"select id, `x.y` from `lake`.`{project.test_schema}`.`as_{kind}`", fetch="all"))

    def test_every_materialization_has_the_rows_and_arctic_tells_what_changed(self, project: Any) -> None:
        results = run_dbt(["run", "--vars", "times: 2"])
        assert [self.rows(project, kind) for kind in self.KINDS] == [[(0, 0), (1, 2)]] * 3
        assert {r.node.name: r.message for r in results}["as_arctic"] == "full +0 ~1 -0"
        assert project.run_sql("set spark.sql.ansi.enabled", fetch="one")[1].lower() == "true"

    @pytest.mark.parametrize(
        ("returned", "said"),
        [
            ("rows.select('nothing')", "line 3: return rows.select('nothing')"),
            ("rows.collect()", "found: builtins.list"),
        ],
    )
    def test_what_is_wrong_is_named_and_the_table_stays(
        self, project: Any, method: dict[str, Any], returned: str, said: str
    ) -> None:
        """Over Spark Connect a frame is looked at only when it is written, so the error names no line of the model."""
        if method["method"] == "connect" and "nothing" in returned:
            said = "with name `nothing` cannot be resolved"
        write_file(FAILS % returned, "models", "as_table.py")
        before = self.rows(project, "table")
        assert said in run_dbt(["run", "--select", "as_table"], expect_pass=False).results[0].message
        assert self.rows(project, "table") == before

    @pytest.mark.parametrize("returned", ["rows.limit(0).toPandas()", "rows.limit(0).toArrow()"])
    def test_what_this_process_holds_makes_a_table_though_it_has_no_rows(self, project: Any, returned: str) -> None:
        write_file(FAILS % returned, "models", "as_table.py")
        run_dbt(["run", "--select", "as_table"])
        table = f"`lake`.`{project.test_schema}`.`as_table`"
        assert project.run_sql(f"select id, `a b` from {table}", fetch="all") == []
