"""The run line tells of changes that frozen rows did not take, and a variable has a full refresh compute them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.arctic.cli import main

pytestmark = pytest.mark.in_turn

SOURCE = """
{{ config(materialized='arctic', primary_key='id') }}
select id, date_add(date '2026-01-01', id) as day, id * {{ var('price', 1) }} as amount
from (select explode(sequence(0, {{ var('last', 9) }})) as id)
"""
FROZEN = """
{{ config(materialized='arctic', primary_key='id', frozen_where="day < date '2026-01-06'") }}
select id, day, amount from {{ ref('source_rows') }}
"""


class TestFrozen:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"source_rows.sql": SOURCE, "closed.sql": FROZEN}

    def run(self, *arguments: str, **values: Any) -> Any:
        results = run_dbt(["run", *arguments, "--vars", json.dumps(values)])
        return next(result for result in results if result.node.name == "closed")

    def test_changes_that_are_not_applied_are_told(self, project: Any, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run().message == "create +10 ~0 -0"
        changed = self.run(price=2)
        assert changed.message == "incremental +0 ~5 -0; frozen: 4 changes not applied"
        assert changed.adapter_response["frozen"] == 4
        capsys.readouterr()
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        assert main(["status", "closed", *options]) == 0
        assert "frozen: 4 changes not applied since frozen rows were last computed" in capsys.readouterr().out
        assert main(["verify", "closed", *options]) == 0
        assert "frozen rows are not compared: 5" in capsys.readouterr().out
        assert main(["restate", "closed", "--where", "id = 2", "--frozen", *options]) == 0
        assert "restated +0 ~1 -0" in capsys.readouterr().out
        refresh = ("--full-refresh", "--select", "closed")
        assert self.run(*refresh, price=2).message == "full +0 ~0 -0; frozen: 3 changes not applied"
        assert self.run(*refresh, price=2, arctic_frozen=True).message == "full +0 ~3 -0"
        rows = project.run_sql("select sum(amount) from {database}.{schema}.closed", fetch="one")
        assert rows[0] == 90
