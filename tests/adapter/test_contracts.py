"""Contracts and their constraints.

| left out | because |
|---|---|
| Base...RuntimeDdlEnforcement | they compare the text of a `create table` that has column definitions; |
| BaseModelConstraints... | here the writing query checks constraints, |
| BaseConstraintQuotedColumn | see TestConstraintsAreEnforced |
"""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.constraints import fixtures
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintsRollback,
    BaseIncrementalConstraintsColumnsEqual,
    BaseIncrementalConstraintsRollback,
    BaseIncrementalContractSqlHeader,
    BaseIncrementalForeignKeyConstraint,
    BaseTableConstraintsColumnsEqual,
    BaseTableContractSqlHeader,
    BaseViewConstraintsColumnsEqual,
)
from dbt.tests.util import run_dbt, write_file

SQL_HEADER = "set time zone 'Asia/Kolkata';"


class Types:
    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "int", "int"],
            ["cast('2013-11-03 00:00:00-07' as timestamp)", "timestamp", "timestamp"],
            ["cast('1' as decimal(10,2))", "decimal(10,2)", "decimal(10,2)"],
            ["array(named_struct('a', 1))", "array<struct<a:int>>", "array<struct<a:int>>"],
        ]


class TestTableConstraintsColumnsEqual(Types, BaseTableConstraintsColumnsEqual):
    pass


@pytest.mark.slow
class TestViewConstraintsColumnsEqual(Types, BaseViewConstraintsColumnsEqual):
    pass


@pytest.mark.slow
class TestIncrementalConstraintsColumnsEqual(Types, BaseIncrementalConstraintsColumnsEqual):
    pass


class Rollback:
    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["my_model: column id has a null, and its contract says not_null"]


class TestConstraintsRollback(Rollback, BaseConstraintsRollback):
    pass


class TestIncrementalConstraintsRollback(Rollback, BaseIncrementalConstraintsRollback):
    pass


class SqlHeader:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        kind = self.kind  # type: ignore[attr-defined]
        model = (
            "{{ config(materialized='" + kind + "', on_schema_change='append_new_columns') }}"
            "{% call set_sql_header(config) %}" + SQL_HEADER + "{% endcall %}"
            "select current_timezone() as column_name"
        )
        return {
            "my_model_contract_sql_header.sql": model,
            "constraints_schema.yml": fixtures.model_contract_header_schema_yml,
        }


@pytest.mark.slow
class TestTableContractSqlHeader(SqlHeader, BaseTableContractSqlHeader):
    kind = "table"


@pytest.mark.slow
class TestIncrementalContractSqlHeader(SqlHeader, BaseIncrementalContractSqlHeader):
    kind = "incremental"


class TestIncrementalForeignKeyConstraint(BaseIncrementalForeignKeyConstraint):
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {}


TABLE = "{{ config(materialized='table') }} "
CHECKED_YML = """
models:
  - name: m
    config: {contract: {enforced: true}}
    constraints:
      - {type: check, expression: "`from` <> 'green'"}
    columns:
      - {name: id, data_type: int, constraints: [{type: not_null}, {type: check, expression: id > 0}]}
      - {name: from, quote: true, data_type: string}
"""


class TestConstraintsAreEnforced:
    """Every row that is written keeps the contract, or nothing is written."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"m.sql": TABLE + "select 'blue' as `from`, 1 as id", "schema.yml": CHECKED_YML}

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("select 'green' as `from`, 1 as id", "m: a row breaks the check constraint (`from` <> 'green')"),
            ("select 'blue' as `from`, 0 as id", "m: a row breaks the check constraint id > 0"),
            ("select 'blue' as `from`, cast(null as int) as id", "m: column id has a null"),
        ],
    )
    def test_a_row_that_breaks_a_constraint_is_refused(self, project: Any, query: str, message: str) -> None:
        write_file(TABLE + "select 'blue' as `from`, 1 as id", "models", "m.sql")
        run_dbt(["run"])
        write_file(TABLE + query, "models", "m.sql")
        result = run_dbt(["run"], expect_pass=False).results[0]
        assert message.replace("(", "").replace(")", "") in result.message.replace("(", "").replace(")", "")
        assert project.run_sql(f"select * from `lake`.{project.test_schema}.m", fetch="all") == [(1, "blue")]
