"""A user's macros may have the names of variables that materializations use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

MATERIALIZATIONS = Path(__file__).parents[2] / "dbt/include/arctic/macros/materializations"
YAML = """
models:
  - name: shown
    columns: [{name: id, data_tests: [unique, not_null]}]
unit_tests:
  - name: passes_on
    model: shown
    given: [{input: ref('built'), rows: [{id: 7}]}]
    expect: {rows: [{id: 7}]}
"""
PAST = """{% snapshot past %}{{ config(unique_key='id', strategy='check', check_cols='all') }}
select * from {{ ref('built') }}{% endsnapshot %}"""


def list_variables() -> list[str]:
    """The variables that the materializations set, and dbt's own `sql`.

    No macro can have the name of dbt's `compiled_code`, which the materializations read.
    """
    texts = [file.read_text("utf-8") for file in MATERIALIZATIONS.glob("*.sql")]
    names = {name for text in texts for name in re.findall(r"{%-?\s*set\s+(\w+)", text)}
    return sorted({"sql", *names} - {"compiled_code"})


class TestMacrosWithNamesOfVariables:
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"own.sql": "\n".join(f"{{% macro {name}() %}} wrong {{% endmacro %}}" for name in list_variables())}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "built.sql": "{{ config(materialized='table') }} select 1 as id",
            "grown.sql": "{{ config(materialized='incremental', unique_key='id') }} select id from {{ ref('built') }}",
            "kept.sql": "{{ config(materialized='arctic', primary_key='id') }} select id from {{ ref('built') }}",
            "shown.sql": "{{ config(materialized='view') }} select id from {{ ref('built') }}",
            "schema.yml": YAML,
        }

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"sown.csv": "id\n1\n"}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"past.sql": PAST}

    def test_every_materialization_uses_its_own_variables(self, project: Any) -> None:
        assert "sql" in list_variables()
        for _ in range(2):
            results = run_dbt(["build"]).results
            assert {str(result.status) for result in results} == {"success", "pass"}
        shown = project.run_sql(f"select id from `lake`.`{project.test_schema}`.shown", fetch="all")
        assert [tuple(row) for row in shown] == [(1,)]
