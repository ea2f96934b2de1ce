"""`arctic adopt`: incremental models and their tables become arctic ones in place, and their errors are published."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.arctic import cli

ORDERS = """{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
select id, amount, at from {{ source('raw', 'orders') }}
{% if is_incremental() %} where at > (select max(at) from {{ this }}) {% endif %}
"""
TOTALS = """{{
    config(
        materialized = "incremental",
        incremental_strategy = "append"
    )
}}
select at, sum(amount) as total from {{ ref('orders') }} group by at"""
YAML = """
models:
  - name: by_yaml
    config: {materialized: incremental, unique_key: id}
sources:
  - name: raw
    database: lake
    schema: "{{ target.schema }}"
    tables: [{name: orders, identifier: raw_orders}]
"""


class TestAdopt:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        by_yaml = "select id, amount from {{ source('raw', 'orders') }}"
        return {"orders.sql": ORDERS, "totals.sql": TOTALS, "by_yaml.sql": by_yaml, "schema.yml": YAML}

    def adopt(self, project: Any, capsys: Any, *arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        folders = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        code = cli.main(["adopt", *folders, *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    def test_a_project_is_adopted_and_given_back(self, project: Any, capsys: Any) -> None:
        raw = f"`lake`.`{project.test_schema}`.`raw_orders`"
        orders = f"`lake`.`{project.test_schema}`.`orders`"
        project.run_sql(f"create table {raw} (id int, amount int, at date) using iceberg")
        project.run_sql(f"insert into {raw} values (1, 10, date '2024-01-01'), (2, 20, date '2024-01-02')")
        run_dbt(["run"])
        project.run_sql(f"insert into {raw} values (3, 30, date '2024-01-03'), (4, 40, date '2024-01-01')")
        project.run_sql(f"delete from {raw} where id = 1")
        run_dbt(["run", "-s", "orders"])
        wrong = project.run_sql(f"select id from {orders} order by id", fetch="all")
        assert wrong == [(1,), (2,), (3,)]

        code, said = self.adopt(project, capsys)
        assert code == 0
        assert "+{{ config(materialized='arctic', unique_key='id', incremental_strategy='merge') }}" in said
        assert "set `materialized: arctic` where YAML sets `incremental`: by_yaml" in said
        assert "no key is known, so `primary_key` has to be configured first: totals" in said
        _, patch = self.adopt(project, capsys, "--patch")
        subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=project.project_root, check=True)
        assert "materialized='arctic'" in Path(project.project_root, "models", "orders.sql").read_text()

        code, said = self.adopt(project, capsys)
        assert "3 rows in" in said
        assert "would be taken over as they are, with key id" in said
        assert "nothing was changed; add --yes" in said
        code, said = self.adopt(project, capsys, "orders", "--yes")
        assert (code, "adopted with 3 rows" in said) == (0, True)
        (result,) = run_dbt(["run", "-s", "orders"]).results
        assert result.adapter_response["inserted"] == 1
        assert result.adapter_response["deleted"] == 1
        assert project.run_sql(f"select id from {orders} order by id", fetch="all") == [(2,), (3,), (4,)]
        code, said = self.adopt(project, capsys, "orders", "--yes")
        assert (code, "there is nothing to adopt" in said) == (2, True)
        folders = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        assert cli.main(["reset", *folders, "orders"]) == 0
        assert "`arctic adopt orders --undo` keeps these" in capsys.readouterr().out
        code, said = self.adopt(project, capsys, "orders", "--undo")
        assert code == 0
        assert project.run_sql(f"select id from {orders} order by id", fetch="all") == wrong
        code, said = self.adopt(project, capsys, "orders", "--json")
        assert json.loads(said)["tables"][0]["primary_key"] == ["id"]
