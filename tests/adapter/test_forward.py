"""An edit goes forward by dbt and by the command, and one that can't is an error that names the ways out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.arctic.cli import main

ORDERS = """
{{ config(materialized='arctic', primary_key='id') }}
select id, id * 2 as amount from (select explode(sequence(0, 9)) as id)
"""
PAID = "{{ config(materialized='arctic', primary_key='id', on_query_change='forward') }}\n"
FIRST = f"{PAID}select id, amount from {{{{ ref('orders') }}}}"
NEGATED = f"{PAID}select id, -amount as amount from {{{{ ref('orders') }}}}"
RANKED = f"{PAID}select id, cast(rank() over (order by amount, id) as int) as amount from {{{{ ref('orders') }}}}"


@pytest.mark.in_turn
class TestForward:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"orders.sql": ORDERS, "paid.sql": FIRST}

    def edit(self, project: Any, text: str) -> None:
        write_file(text, str(Path(project.project_root) / "models" / "paid.sql"))

    def test_an_edit_goes_forward_and_one_that_can_not_is_refused_by_name(
        self, project: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run_dbt(["run"])
        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        self.edit(project, RANKED)
        _, log = run_dbt_and_capture(["run", "-s", "paid"], expect_pass=False)
        ways_out = "take the edit back; or run `dbt run --full-refresh -s paid`, or set `on_query_change: recompute`"
        assert ways_out in " ".join(log.split())
        capsys.readouterr()
        assert main(["explain", "paid", *options]) != 0
        shown = " ".join(capsys.readouterr().err.split())
        assert "paid: `on_query_change: forward`, but only a computation of all rows can bring it up to date" in shown
        assert "(EVERYTHING_AFFECTED)" in shown
        assert ways_out in shown
        self.edit(project, NEGATED)
        assert main(["explain", "paid", *options]) == 0
        assert "leaves the rows of the table as they are" in capsys.readouterr().out
        (result,) = run_dbt(["run", "-s", "paid"])
        assert (result.message, result.adapter_response["reason"]) == ("incremental +0 ~0 -0", "FORWARD")
        assert main(["status", "paid", *options]) == 0
        assert "up to 10 rows are still of earlier queries" in capsys.readouterr().out
        rows = project.run_sql("select min(amount), max(amount) from {database}.{schema}.paid", fetch="one")
        assert tuple(rows) == (0, 18)
