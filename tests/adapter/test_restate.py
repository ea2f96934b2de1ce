"""A part of a table is computed anew by dbt's flags for a window of time, by the macro, and by the command."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

from dbt.adapters.arctic.cli import main

ORDERS = """
{{ config(materialized='arctic', primary_key='id') }}
select id, id * 2 as amount, timestamp_ntz '2026-01-01 12:00:00' + make_dt_interval(id) as at
from (select explode(sequence(0, 9)) as id)
"""
PAID = """
{{ config(materialized='arctic', primary_key='id', event_time='at') }}
select id, amount, at from {{ ref('orders') }}
"""
DAYS = """
{{ config(materialized='arctic', primary_key='day') }}
select cast(at as date) as day, sum(amount) as total from {{ ref('paid') }} group by 1
"""
WINDOW = ["--event-time-start", "2026-01-04", "--event-time-end", "2026-01-06"]


@pytest.mark.slow
class TestRestate:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"orders.sql": ORDERS, "paid.sql": PAID, "days.sql": DAYS}

    def damage(self, project: Any) -> None:
        project.run_sql("update {database}.{schema}.paid set amount = -1 where id in (1, 3, 4)")

    def wrong(self, project: Any) -> list[int]:
        rows = project.run_sql("select id from {database}.{schema}.paid where amount <> id * 2", fetch="all")
        return sorted(row[0] for row in rows)

    def test_dbt_run_with_a_window_restates_models_with_an_event_time(self, project: Any) -> None:
        run_dbt(["run"])
        self.damage(project)
        results = {r.node.name: r for r in run_dbt(["run", *WINDOW])}
        assert (results["paid"].message, results["orders"].message) == ("full +0 ~2 -0", "unchanged")
        assert results["paid"].adapter_response["reason"] == "RESTATED"
        assert results["days"].message == "incremental +0 ~0 -0"
        assert self.wrong(project) == [1]
        assert {r.message for r in run_dbt(["run"])} == {"unchanged"}

    def test_the_macro_and_the_command_restate_and_show_what_follows(
        self, project: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.damage(project)
        capsys.readouterr()
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        below = ["restate", "paid", "--where", "id < 4", "--below", "--json", *options]
        assert main(below) == 0
        shown = json.loads(capsys.readouterr().out)
        table = f"lake.{project.test_schema}.paid"
        assert shown["tables"][table]["rows"]["update"] == 2
        assert [(reader["reads"], reader["change_rows"]) for reader in shown["below"]] == [([table], 2)]
        assert self.wrong(project) == [1, 3, 4]
        operation = ["run-operation", "arctic_restate", "--args", '{model: paid, where: "id < 4"}']
        _, log = run_dbt_and_capture(operation)
        assert f"{table}: restated +0 ~2 -0" in log
        assert self.wrong(project) == [4]
        assert main(["restate", "paid", "--where", "amuont = 1", *options]) == 2
        assert "did you mean 'amount'" in capsys.readouterr().err
