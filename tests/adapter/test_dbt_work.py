"""What a service has dbt do in its own process: scheduled models are run, and tests of tables told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from dbt.adapters.arctic.project.dbt_work import DbtWork
from dbt.adapters.arctic.project.loaded_project import Location, load_project

KEYED = """
{{ config(materialized='arctic', primary_key='id', meta={'arctic': {'test_after_refresh': true}}) }}
select 1 as id, 'a' as city union all select 2, 'b'
"""
EACH = """
{{ config(materialized='incremental', meta={'arctic': {'schedule': '0 6 * * *', 'test_after_refresh': true}},
          post_hook="create table {{ this.include(identifier=false) }}.hooked_{{ is_incremental() | lower }}
                     as select 1 as a") }}
select id, city, {{ is_incremental() }} as again from {{ ref('shown') }}
"""
SHOWN = "select * from {{ ref('keyed') }}"
LATER = """
{{ config(materialized='table', meta={'arctic': {'schedule': '0 7 * * *'}}) }}
select count(*) as n from {{ ref('each') }}
"""
TESTS = """
models:
  - name: keyed
    columns:
      - name: id
        data_tests: [not_null, unique]
      - name: city
        data_tests:
          - accepted_values: {arguments: {values: [a]}}
          - accepted_values: {name: is_known, arguments: {values: [b]}, config: {severity: warn}}
  - name: each
    columns: [{name: absent, data_tests: [not_null]}]
"""

LANDING = """
sources:
  - name: raw
    tables: [{name: events, config: {meta: {arctic: {retentio: {changes: 7d}}}}}]
"""


class TestByDbt:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"keyed.sql": KEYED, "each.sql": EACH, "shown.sql": SHOWN, "later.sql": LATER, "tests.yml": TESTS}

    def work(self, project: Any, *select: str) -> DbtWork:
        return DbtWork(
            load_project(Location(Path(project.project_root), Path(project.profiles_dir), None, select, is_served=True))
        )

    def test_scheduled_models_are_run_in_order_and_tests_tell_what_fails(self, project: Any) -> None:
        run_dbt(["run", "--select", "keyed", "shown"])
        work = self.work(project)
        assert [(scheduled_model.table.name, scheduled_model.cron) for scheduled_model in work.scheduled] == [
            ("each", "0 6 * * *"),
            ("later", "0 7 * * *"),
        ]
        assert work.scheduled[1].above == {work.scheduled[0].name}
        assert [{table.name for table in scheduled_model.reads} for scheduled_model in work.scheduled] == [
            {"keyed"},
            {"each"},
        ]
        for scheduled_model in (*work.scheduled, work.scheduled[0]):
            work.run_model(scheduled_model.name)
        assert self.rows(project, "each") == [(1, "a", False), (1, "a", True), (2, "b", False), (2, "b", True)]
        assert self.rows(project, "later") == [(2,)]
        assert self.rows(project, "hooked_false") == self.rows(project, "hooked_true") == [(1,)]

        keyed, each = (TableName("lake", project.test_schema, name) for name in ("keyed", "each"))
        assert set(work.list_tested_tables()) == {keyed, each}
        by_name = {failed_test.name.split("_keyed")[0]: failed_test for failed_test in work.test_table(keyed)}
        assert {name: value.status for name, value in by_name.items()} == {
            "accepted_values": "fail", "is_known": "warn", "not_null": "pass", "unique": "pass",
        }  # fmt: skip
        assert "Got 1 result" in by_name["accepted_values"].message
        (absent,) = work.test_table(each)
        assert (absent.status, "absent" in absent.message) == ("error", True)

    def test_what_fails_is_raised_and_a_selection_holds(self, project: Any) -> None:
        run_dbt(["run", "--select", "keyed"])
        write_file(EACH.replace("select id,", "select nothing,"), project.project_root, "models", "each.sql")
        work = self.work(project, "keyed", "each")
        (each,) = work.scheduled
        with pytest.raises(Exception, match="nothing"):
            work.run_model(each.name)

    def test_a_schedule_that_can_not_be_meant_is_refused_with_its_place(self, project: Any) -> None:
        write_file(EACH.replace("0 6 * * *", "daily"), project.project_root, "models", "each.sql")
        with pytest.raises(ConfigError, match=r"(?s)models/each\.sql.*cron expression"):
            self.work(project)

    def test_a_landing_table_that_can_not_be_meant_is_refused_before_anything_uses_the_project(
        self, project: Any
    ) -> None:
        write_file(EACH, project.project_root, "models", "each.sql")
        write_file(LANDING, project.project_root, "models", "landing.yml")
        with pytest.raises(ConfigError, match="unknown key `retentio`"):
            self.work(project)

    def rows(self, project: Any, name: str) -> list[tuple[Any, ...]]:
        return sorted(
            map(tuple, project.run_sql(f"select * from `lake`.`{project.test_schema}`.`{name}`", fetch="all"))
        )
