"""`arctic run` beside `dbt run`: the same tables, the same results, and what dbt alone does is done by dbt."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from dbt.artifacts.schemas.run import RunResultsArtifact
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.arctic import cli

SOURCES = """
sources:
  - name: shop
    schema: "{{ target.schema }}"
    tables: [{name: landed}, {name: events}]
"""
ORDERS = """
{{ config(materialized='arctic', primary_key='id') }}
select id, city, amount from {{ source('shop', 'landed') }}
"""
LARGE = """
{{ config(materialized='arctic', primary_key='id', merge='on_read') }}
select id, city, amount from {{ ref('cheap') }} where amount > 10
"""
CHEAP = "{{ config(materialized='ephemeral') }} select * from {{ source('shop', 'landed') }} where amount < 1000"
SHOWN = "{{ config(materialized='view') }} select city, amount from {{ ref('orders') }}"
CITIES = """
{{ config(materialized='arctic', primary_key='city') }}
select city, count(*) as n, sum(amount) as amount from {{ ref('shown') }} group by city
"""
LATEST = """
{{ config(materialized='arctic', primary_key='id', input='changes', sequence_by='lsn') }}
select id, note, lsn from {{ changes(source('shop', 'events')) }}
{% if is_incremental() %} where note <> 'ignored later' {% endif %}
"""
MODELS = {
    "sources.yml": SOURCES,
    "orders.sql": ORDERS,
    "cheap.sql": CHEAP,
    "large.sql": LARGE,
    "shown.sql": SHOWN,
    "cities.sql": CITIES,
    "latest.sql": LATEST,
}
TABLES = ("orders", "large", "cities", "latest")


class Shop:
    """Two landing tables, and what tests ask of a project over them."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return MODELS

    @pytest.fixture(scope="class", autouse=True)
    def landed(self, project: Any) -> None:
        self.sql(project, "create table {landed} (id bigint, city string, amount bigint)")
        self.sql(project, "create table {events} (id bigint, note string, lsn bigint)")
        self.sql(project, "insert into {landed} values (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)")
        self.sql(project, "insert into {events} values (1, 'x', 1), (2, 'y', 2)")

    def sql(self, project: Any, sql: str) -> Any:
        names = {name: f"`lake`.`{project.test_schema}`.`{name}`" for name in (*TABLES, "landed", "events", "log")}
        return project.run_sql(sql.format_map(names), fetch="all")

    def rows(self, project: Any, name: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.sql(project, f"select * from {{{name}}}")))

    def run(self, project: Any, *arguments: str) -> int:
        where = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        return cli.main(["run", *arguments, *where])

    def results(self) -> dict[str, Any]:
        """What `run_results.json` tells of each model, which is what dbt's schema allows."""
        written = json.loads(Path("target/run_results.json").read_text())
        RunResultsArtifact.validate(written)
        return {result["unique_id"].rpartition(".")[2]: result for result in written["results"]}

    def messages(self) -> dict[str, str]:
        return {name: result["message"] for name, result in self.results().items() if name in TABLES}


class TestOnce(Shop):
    def test_it_does_what_dbt_run_does(self, project: Any, capsys: pytest.CaptureFixture[str]) -> None:
        run_dbt(["run", "--select", "shown", "orders"])
        self.sql(project, "drop table {orders}")
        self.sql(project, f"drop table `lake`.`{project.test_schema}`.`orders__changes`")
        assert self.run(project, "--once") == 0
        output = capsys.readouterr().out
        assert f"OK arctic {project.test_schema}.cities [create +2 ~0 -0 in " in output
        by_arctic = {name: self.rows(project, name) for name in TABLES}
        assert by_arctic["cities"] == [("a", 2, 40), ("b", 1, 20)]
        self.check_results_are_those_of_dbt(project)
        self.sql(project, "insert into {landed} values (4, 'c', 40)")
        self.sql(project, "insert into {events} values (1, 'z', 3), (9, 'ignored later', 4)")
        assert self.run(project, "--once") == 0
        incremental = self.messages()
        assert incremental == {
            "orders": "incremental +1 ~0 -0",
            "large": "incremental +1 ~0 -0",
            "cities": "incremental +1 ~0 -0",
            "latest": "incremental +0 ~1 -0",
        }
        self.sql(project, "insert into {landed} values (5, 'c', 50)")
        run_dbt(["run"])
        assert self.messages()["cities"] == "incremental +0 ~1 -0"
        assert self.run(project, "--once", "--select", "+cities", "--json") == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
        assert {line["model"].rpartition(".")[2]: line["message"] for line in lines} == {
            "orders": "unchanged",
            "cities": "unchanged",
        }

    def check_results_are_those_of_dbt(self, project: Any) -> None:
        """But for tokens, times and the like, both write the same of each model."""
        ours = self.results()
        assert ours["cities"]["adapter_response"]["mode"] == "create"
        run_dbt(["run"])
        theirs = self.results()
        for name in TABLES:
            assert theirs[name]["message"] == "unchanged", "dbt finds something to do that arctic has left"
            assert set(ours[name]) == set(theirs[name])
            assert ours[name]["compiled_code"].strip() != ""
            assert ours[name]["relation_name"] == theirs[name]["relation_name"]

    def test_it_follows_until_a_signal_ends_it_and_is_silent_while_nothing_is_new(self, project: Any) -> None:
        self.run(project, "--once")
        where = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        command = [sys.executable, "-m", "dbt.adapters.arctic.command_line", "run", *where]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
            assert following.stderr is not None
            first = next(line for line in following.stderr if "follows" in line)
            assert first == "arctic run: follows 4 models\n"
            time.sleep(1)
            following.send_signal(signal.SIGTERM)
            out, err = following.communicate(timeout=60)
        assert (following.returncode, out) == (0, "")
        assert "SIGTERM: ends after the refreshes under way" in err

    def test_a_failure_is_reported_and_dbt_retry_continues_there(
        self, project: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.run(project, "--once")
        self.sql(project, "insert into {landed} values (1, 'twice', 5)")
        self.sql(project, "insert into {events} values (5, 'fine', 9)")
        capsys.readouterr()
        assert self.run(project, "--once") == 1
        output = capsys.readouterr().out
        assert f"ERROR arctic {project.test_schema}.orders" in output
        assert "duplicate key" in output
        assert f"SKIP arctic {project.test_schema}.cities" in output
        rows = self.results()
        assert {name: rows[name]["status"] for name in TABLES} == {
            "orders": "error",
            "large": "success",
            "cities": "skipped",
            "latest": "success",
        }
        self.sql(project, "delete from {landed} where city = 'twice'")
        retried = {result.node.name: result.status for result in run_dbt(["retry"])}
        assert retried == {"orders": "success", "cities": "success"}

    def test_a_selection_without_an_arctic_model_is_wrong_use(
        self, project: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(project, "--once", "--select", "shown") == 2
        assert "no arctic model is selected" in capsys.readouterr().err


class TestWhatDbtDoesAround(Shop):
    """Hooks, Python models and descriptions; and tables that only dbt refreshes."""

    HOOKED = """
{{ config(materialized='arctic', primary_key='id',
          pre_hook="create table if not exists {{ this.include(identifier=false) }}.log as select 'pre' as at",
          post_hook="insert into {{ this.include(identifier=false) }}.log values ('post')") }}
select id, city, amount from {{ ref('plain') }}
"""
    PYTHON = """
def model(dbt, session):
    dbt.config(materialized='arctic', primary_key='id')
    return dbt.ref('orders').selectExpr('id', 'amount * 2 as amount')
"""
    REFUSED = """
{{ config(materialized='arctic', primary_key='id') }}
{% if execute %}{{ exceptions.raise_compiler_error('not today') }}{% endif %} select * from {{ ref('orders') }}
"""
    YAML = """
models:
  - name: latest
    description: newest note
    config: {persist_docs: {relation: true, columns: true}}
    columns: [{name: note, description: what was said}]
"""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        plain = "{{ config(materialized='table') }} select * from {{ source('shop', 'landed') }}"
        python = {"large.py": self.PYTHON, "plain.sql": plain, "orders.sql": self.HOOKED, "schema.yml": self.YAML}
        return {"sources.yml": SOURCES, "latest.sql": LATEST, "cities.sql": self.REFUSED, **python}

    def test_all_of_it_is_done_and_what_is_not_is_said(self, project: Any, capsys: pytest.CaptureFixture[str]) -> None:
        run_dbt(["run", "--select", "plain"])
        assert self.run(project, "--once") == 1
        assert f"{project.test_schema}.plain is read as it is" in capsys.readouterr().err
        assert self.rows(project, "large") == [(1, 20), (2, 40), (3, 60)]
        assert self.rows(project, "log") == [("post",), ("pre",)]
        described = project.adapter.catalog_reader.describe_relation(project.test_schema, "latest")
        assert (described.comment, described.columns[1].comment) == ("newest note", "what was said")
        rows = self.results()
        assert {name: rows[name]["status"] for name in rows} == {
            **dict.fromkeys(("large", "orders", "latest"), "success"),
            "cities": "error",
        }
        assert "not today" in rows["cities"]["message"]
        write_file(self.YAML.replace("newest note", "the newest"), "models", "schema.yml")
        assert self.run(project, "--once", "--select", "latest") == 0
        described = project.adapter.catalog_reader.describe_relation(project.test_schema, "latest")
        assert described.comment == "the newest"
