"""Forgetting, and events without a key, as dbt users ask for them and as docs/forget.md shows it."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

EVENTS = """
{{ config(materialized='table') }}
select * from values (4711, 'ann@example.com', 'eu', 1), (2, 'bob@example.com', 'us', 2) as t(id, email, region, nr)
"""
CUSTOMERS = """
{{ config(materialized='arctic', primary_key='id', input='changes', sequence_by='nr') }}
select * from {{ changes(ref('events')) }}
"""
BY_REGION = """
{{ config(materialized='arctic', primary_key='region') }}
select region, count(*) as n, max(email) as last from {{ ref('ods_customers') }} group by region
"""
SEEN = """
{{ config(materialized='arctic', primary_key=none, input='changes') }}
select id, nr from {{ changes(ref('events')) }}
"""
SEEN_TOO = "select id, nr from {{ changes(ref('events')) }}"
PROPERTIES = """
models:
  - name: seen_too
    config: {materialized: arctic, primary_key: null, input: changes, partition_by: id}
"""


@pytest.mark.slow
class TestForget:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "events.sql": EVENTS,
            "ods_customers.sql": CUSTOMERS,
            "by_region.sql": BY_REGION,
            "seen.sql": SEEN,
            "seen_too.sql": SEEN_TOO,
            "properties.yml": PROPERTIES,
        }

    def rows(self, project: Any, table: str) -> list[tuple[Any, ...]]:
        rows = project.run_sql(f"select * from {{database}}.{{schema}}.{table}", fetch="all")
        return sorted(map(tuple, rows))

    def test_rows_are_forgotten_by_the_macro_through_models_below(self, project: Any) -> None:
        results = {r.node.name: r.message for r in run_dbt(["run"])}
        assert results["seen"] == results["seen_too"] == "create +2 ~0 -0"
        assert {r.node.name: r.message for r in run_dbt(["run", "--select", "seen seen_too"])} == {
            "seen": "unchanged",
            "seen_too": "unchanged",
        }
        assert self.rows(project, "seen") == self.rows(project, "seen_too") == [(2, 2), (4711, 1)]
        operation = ["run-operation", "arctic_forget", "--args", '{model: ods_customers, key: ["4711"]}']
        _, log = run_dbt_and_capture(operation)
        assert f"forgotten: 1 key(s) of lake.{project.test_schema}.ods_customers" in log
        assert f"forgotten: 1 key(s) of lake.{project.test_schema}.by_region" in log
        assert "events, which" in log
        assert self.rows(project, "ods_customers") == [(2, "bob@example.com", "us", 2)]
        assert self.rows(project, "by_region") == [("us", 1, "bob@example.com")]
        assert {r.message for r in run_dbt(["run", "--exclude", "events"])} == {"unchanged"}
