"""Contracts and their constraints."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.constraints import fixtures
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintQuotedColumn,
    BaseConstraintsRollback,
    BaseConstraintsRuntimeDdlEnforcement,
    BaseIncrementalConstraintsColumnsEqual,
    BaseIncrementalConstraintsRollback,
    BaseIncrementalConstraintsRuntimeDdlEnforcement,
    BaseIncrementalContractSqlHeader,
    BaseIncrementalForeignKeyConstraint,
    BaseModelConstraintsRuntimeEnforcement,
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


@pytest.mark.slow
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


@pytest.mark.slow
class TestIncrementalForeignKeyConstraint(BaseIncrementalForeignKeyConstraint):
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {}


CHECKED_SQL = """
create or replace table <model_identifier> using iceberg as
select
    case when not (id >= 1) then <model_identifier> a row breaks the check constraint id >= 1') else
    case when not ((id > 0)) then <model_identifier> a row breaks the check constraint (id > 0)') else
    coalesce(`id`, <model_identifier> column id has a null, and its contract says not_null')) end end as `id`,
    `color` as `color`,
    `date_day` as `date_day`
from (
    -- depends_on: <foreign_key_model_identifier>
    select 'blue' as color, 1 as id, '2019-01-01' as date_day
) as model_subq
"""
CHECKED_QUOTED_SQL = """
create or replace table <model_identifier> using iceberg as
select
    case when not ((`from` = 'blue')) then <model_identifier> a row breaks the check constraint (`from` = \\'blue\\')')
    else coalesce(`id`, <model_identifier> column id has a null, and its contract says not_null')) end as `id`,
    coalesce(`from`, <model_identifier> column from has a null, and its contract says not_null')) as `from`,
    `date_day` as `date_day`
from (
    select 'blue' as `from`, 1 as id, '2019-01-01' as date_day
) as model_subq
"""


class CheckedByTheQuery:
    """The query that writes raises an error for a row against its contract, since Iceberg checks no constraints."""

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return CHECKED_SQL


class TestConstraintsRuntimeDdlEnforcement(CheckedByTheQuery, BaseConstraintsRuntimeDdlEnforcement):
    pass


@pytest.mark.slow
class TestIncrementalConstraintsRuntimeDdlEnforcement(
    CheckedByTheQuery, BaseIncrementalConstraintsRuntimeDdlEnforcement
):
    pass


@pytest.mark.slow
class TestModelConstraintsRuntimeEnforcement(CheckedByTheQuery, BaseModelConstraintsRuntimeEnforcement):
    pass


@pytest.mark.slow
class TestConstraintQuotedColumn(BaseConstraintQuotedColumn):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model.sql": fixtures.my_model_with_quoted_column_name_sql,
            "constraints_schema.yml": fixtures.model_quoted_column_schema_yml.replace('"from"', "`from`"),
        }

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return CHECKED_QUOTED_SQL


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
