"""Values of pandas and of pyarrow in the tables of Python models, through each kind of session."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from dbt.tests.util import run_dbt

PANDAS = """
import datetime as dt
from decimal import Decimal
import pandas as pd

def model(dbt, session):
    dbt.config(materialized='{kind}', primary_key='id') if '{kind}' == 'arctic' else dbt.config(materialized='{kind}')
    objects = lambda *values: pd.Series(values, dtype=object)
    frame = pd.DataFrame(dict(
        id=[1, 2], i=pd.array([2**53 + 1, None], dtype='Int64'), f=[0.5, float('nan')], s=objects('a', None),
        b=objects(True, None), d=objects(dt.date(2024, 2, 29), None), n=objects(Decimal('1.25'), None),
        l=objects([1, None], None), st=objects(dict(a=1, b='x'), None), v=objects(None, None),
        t=pd.to_datetime(['2024-01-01 10:00:00.123456', None]),
    ))
    return frame{rest}
"""
ARROW = """
import pyarrow as pa

def model(dbt, session):
    return pa.table(dict(id=[1, 2], x=pa.array([1.5, float('nan')]), u=pa.array([1, None], pa.uint8()), v=pa.nulls(2)))
"""
KINDS = ("table", "incremental", "arctic")
TYPES = ["bigint", "bigint", "double", "string", "boolean", "date", "decimal(38,18)"]
TYPES += ["array<bigint>", "struct<a:bigint,b:string>", "string", "timestamp"]
FULL = (1, 2**53 + 1, 0.5, "a", True, dt.date(2024, 2, 29), Decimal("1.25"), [1, None], {"a": 1, "b": "x"}, None)
FULL = (*FULL, dt.datetime(2024, 1, 1, 10, 0, 0, 123456))


class TestPandasValues:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        frames = {f"{kind}.py": PANDAS.format(kind=kind, rest="") for kind in KINDS}
        return frames | {"empty.py": PANDAS.format(kind="table", rest=".head(0)"), "arrow.py": ARROW}

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project: Any) -> None:
        run_dbt(["run"])

    def rows(self, project: Any, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        query = f"select {columns} from `lake`.`{project.test_schema}`.`{name}` order by id"
        return project.run_sql(query, fetch="all")  # type: ignore[no-any-return]

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_is_missing_is_null_and_numbers_stay_exact(self, project: Any, kind: str) -> None:
        full, missing = self.rows(project, kind)
        assert tuple(full) == FULL
        assert tuple(missing) == (2, *[None] * 10)

    @pytest.mark.parametrize("kind", [*KINDS, "empty"])
    def test_types_do_not_depend_on_the_rows(self, project: Any, kind: str) -> None:
        relation = project.adapter.Relation.create(database="lake", schema=project.test_schema, identifier=kind)
        dtypes = [column.dtype for column in project.adapter.get_columns_in_relation(relation)]
        assert dtypes == TYPES if kind != "empty" else dtypes[:3] == TYPES[:3]

    def test_arrow_tells_a_number_that_is_none_from_null(self, project: Any) -> None:
        rows = self.rows(project, "arrow", "x, isnan(x), u, v, typeof(u), typeof(v)")
        assert [tuple(row[1:]) for row in rows] == [
            (False, 1, None, "int", "string"),
            (True, None, None, "int", "string"),
        ]
