"""A window of time in a dbt project: runs follow it, and two models of one run take the same time for now."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dbt.tests.util import run_dbt

RECENT = """{{ config(materialized='arctic', primary_key='id') }}
select id, at from {{ source('raw', 'events') }} where at > now() - interval 1 hour and at <= now()"""
OLDER = """{{ config(materialized='arctic', primary_key='id') }}
select id, at from {{ source('raw', 'events') }} where at <= now() - interval 1 hour or at > now()"""
TODAY = """{{ config(materialized='arctic', primary_key='id') }}
select id from {{ source('raw', 'events') }} where cast(at as date) > current_date - interval 3 days"""
YAML = """
sources:
  - name: raw
    database: lake
    schema: "{{ target.schema }}"
    tables: [{name: events, identifier: raw_events}]
"""


class TestWindows:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"recent.sql": RECENT, "older.sql": OLDER, "today.sql": TODAY, "sources.yml": YAML}

    def test_time_passes_between_runs(self, project: Any) -> None:
        schema = f"`lake`.`{project.test_schema}`"
        project.run_sql(f"create table {schema}.raw_events (id int, at timestamp) using iceberg")
        times = "timestampadd(millisecond, cast(50 * id - 3600000 as int), now()) from range(2000)"
        project.run_sql(f"insert into {schema}.raw_events select cast(id as int), {times}")
        run_dbt(["run"])
        first = project.run_sql(f"select count(*) from {schema}.recent", fetch="one")
        later = {result.node.name: result.adapter_response for result in run_dbt(["run"]).results}
        assert later["recent"]["mode"] == later["older"]["mode"] == "incremental"
        assert later["recent"]["deleted"] == later["older"]["inserted"] > 0
        assert later["today"]["mode"] in ("unchanged", "incremental")
        second = project.run_sql(f"select count(*) from {schema}.recent", fetch="one")
        assert second[0] == first[0] - later["recent"]["deleted"]
        both = f"select id from {schema}.recent union all select id from {schema}.older"
        ids = sorted(row[0] for row in project.run_sql(both, fetch="all"))
        assert ids == [*range(2000)]
        records = project.run_sql(f"select summary from {schema}.recent__changes.snapshots", fetch="all")
        assert json.loads(dict(records[-1][0])["arctic.clock"])["at"] > 0
