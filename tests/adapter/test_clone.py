"""`dbt clone` of arctic models: they have the files of the other environment, and runs publish what differs alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.arctic import cli

ORDERS = """{{ config(materialized='arctic', primary_key='id') }}
select id, customer, amount{{ ", 'x' as more" if var('more', false) }}
from {{ source('raw', 'orders') }}
where amount > {{ var('least', 0) }}
"""
BY_CUSTOMER = """{{ config(materialized='arctic', primary_key='customer', merge='on_read') }}
select customer, sum(amount) as total, count(*) as n from {{ ref('orders') }} group by customer
"""
LOG = """{{ config(materialized='arctic', primary_key='id', input='changes', delete_when="_action = 'delete'",
                   exclude_columns=['_action']) }}
select id, amount, _action from {{ changes(ref('orders')) }}
"""
VERSIONS = """{{ config(materialized='arctic', primary_key='id', history='scd2') }}
select id, amount from {{ ref('orders') }}
"""
PLAIN = """{{ config(materialized=var('plain', 'table'), primary_key='customer') }}
select customer, count(*) as n from {{ ref('orders') }} group by customer
"""
SHOWN = "{{ config(materialized='view') }} select * from {{ ref('by_customer') }}"
YAML = """
sources:
  - name: raw
    database: lake
    schema: "{{ var('landed', target.schema) }}"
    tables: [{name: orders, identifier: raw_orders}]
"""
MODELS = {"orders": ORDERS, "by_customer": BY_CUSTOMER, "log": LOG, "versions": VERSIONS}


def messages(results: Any) -> dict[str, str]:
    return {result.node.name: result.message for result in results}


def save_state(folder: str = "state") -> None:
    Path(folder).mkdir(exist_ok=True)
    shutil.copy(Path("target", "manifest.json"), folder)


class TestClone:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        files = {f"{name}.sql": text for name, text in MODELS.items()}
        return {**files, "plain.sql": PLAIN, "shown.sql": SHOWN, "schema.yml": YAML}

    @pytest.fixture(scope="class")
    def profiles_config_update(self, dbt_profile_target: dict[str, Any], unique_schema: str) -> dict[str, Any]:
        outputs = {"default": {**dbt_profile_target, "schema": unique_schema}}
        outputs["dev"] = {**dbt_profile_target, "schema": f"{unique_schema}_dev"}
        outputs["branch"] = {**outputs["dev"], "clone_from_state": True}
        outputs["prod"] = {**outputs["default"], "promote_from_state": True}
        return {"test": {"outputs": outputs, "target": "default"}}

    @pytest.fixture(autouse=True)
    def drop_dev(self, project: Any) -> Iterator[None]:
        yield
        relation = project.adapter.Relation.create(database=project.database, schema=f"{project.test_schema}_dev")
        with project.adapter.connection_named("__test"):
            project.adapter.drop_schema(relation)

    def arctic(self, project: Any, capsys: Any, *arguments: str) -> str:
        capsys.readouterr()
        folders = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        cli.main([*arguments, *folders])
        captured = capsys.readouterr()
        return str(captured.out + captured.err)

    def read(self, project: Any, schema: str, name: str) -> list[Any]:
        return sorted(map(tuple, project.run_sql(f"select * from `lake`.`{schema}`.`{name}`", fetch="all")))

    def test_an_arctic_model_that_is_a_table_elsewhere_is_a_view_until_it_runs(self, project: Any) -> None:
        prod, dev = project.test_schema, f"{project.test_schema}_dev"
        project.run_sql(f"create or replace table `lake`.`{prod}`.`raw_orders` (id int, customer string, amount int)")
        project.run_sql(f"insert into `lake`.`{prod}`.`raw_orders` values (1, 'a', 10)")
        run_dbt(["run", "-s", "orders", "plain"])
        save_state()
        chosen = ["-s", "orders", "plain", "--target", "dev"]
        chosen += ["--vars", json.dumps({"landed": prod, "plain": "arctic"})]
        for more in ([], ["--full-refresh"]):
            run_dbt(["clone", "--state", "state", *chosen, *more])
        assert self.read(project, dev, "plain") == [("a", 1)]
        assert messages(run_dbt(["run", *chosen])) == {"orders": "unchanged", "plain": "create +1 ~0 -0"}
        assert messages(run_dbt(["run", *chosen])) == {"orders": "unchanged", "plain": "unchanged"}

    @pytest.mark.slow
    def test_clones_publish_what_differs_alone(self, project: Any, capsys: Any) -> None:
        prod, dev = project.test_schema, f"{project.test_schema}_dev"
        raw = f"`lake`.`{prod}`.`raw_orders`"
        project.run_sql(f"create or replace table {raw} (id int, customer string, amount int) using iceberg")
        project.run_sql(f"insert into {raw} values (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)")
        run_dbt(["run"])
        project.run_sql(f"insert into {raw} values (4, 'c', 40)")
        run_dbt(["run"])
        save_state()
        chosen = ["--target", "dev", "--vars", json.dumps({"landed": prod})]
        clone = ["clone", "--state", "state", *chosen]
        made = messages(run_dbt(clone))
        assert {name: made[name] for name in MODELS} == {name: f"clone of lake.{prod}.{name}" for name in MODELS}
        for name in MODELS:
            assert self.read(project, dev, name) == self.read(project, prod, name)
        assert set(messages(run_dbt(clone)).values()) == {"No-op"}
        ran = messages(run_dbt(["run", *chosen]))
        assert {name: ran[name] for name in MODELS} == dict.fromkeys(MODELS, "unchanged")
        project.run_sql(f"delete from {raw} where id = 2")
        more = ["--target", "dev", "--vars", json.dumps({"landed": prod, "least": 15, "more": True})]
        before = {name: self.read(project, prod, name) for name in MODELS}
        ran = messages(run_dbt(["run", *more]))
        assert ran["orders"] == "incremental +0 ~3 -2"
        assert ran["by_customer"] == "incremental +0 ~1 -1"
        assert ran["log"] == "incremental +0 ~0 -2"
        assert self.read(project, dev, "orders") == [(3, "a", 30, "x"), (4, "c", 40, "x")]
        assert self.read(project, dev, "by_customer") == [("a", 30, 1), ("c", 40, 1)]
        assert self.read(project, dev, "log") == [(3, 30), (4, 40)]
        assert before == {name: self.read(project, prod, name) for name in MODELS}
        said = self.arctic(project, capsys, "clones", "orders", "by_customer")
        assert f"clone lake.{dev}.orders" in said
        said = self.arctic(project, capsys, "clones", "--target", "dev", "orders")
        assert f"lake.{dev}.orders: a clone of lake.{prod}.orders" in said
        said = self.arctic(project, capsys, "diff", "--target", "dev", "orders", "log")
        assert f"lake.{dev}.orders beside lake.{prod}.orders" in said
        assert "  rows: 0 added, 2 removed, 0 changed, of 4" in said
        assert "  column added: more (string)" in said
        said = self.arctic(project, capsys, "diff", "--schema", dev, "log", "--markdown")
        assert "| log | 2 | 0 | 0 |  |" in said
        for other in (["--state", "state"], ["--other-target", "default"]):
            said = self.arctic(project, capsys, "diff", "--target", "dev", *other, "orders")
            for name in MODELS:
                assert f"lake.{dev}.{name} beside lake.{prod}.{name}" in said
            assert said.count("change rows") == len(MODELS)
            said = self.arctic(project, capsys, "diff", "--target", "dev", *other, "orders", "--only")
            assert f"lake.{dev}.orders beside lake.{prod}.orders" in said
            assert "by_customer" not in said
        start = json.loads(self.arctic(project, capsys, "history", "--target", "dev", "log", "--json"))[1]["version"]
        said = self.arctic(project, capsys, "diff", "--target", "dev", "log", "--from", start)
        assert "  rows: 0 added, 2 removed, 0 changed, of 4" in said
        said = self.arctic(project, capsys, "diff", "--state", "nowhere")
        assert "has no manifest that can be read" in said
        made = messages(run_dbt([*clone, "--full-refresh"]))
        assert self.read(project, dev, "orders") == before["orders"]
        said = self.arctic(project, capsys, "clones", "orders")
        assert len([line for line in said.splitlines() if f"clone lake.{dev}.orders" in line and "used" in line]) == 1

    @pytest.fixture
    def defer(self, project: Any) -> list[str]:
        """Arguments of a run in an empty target beside a built one."""
        raw = f"`lake`.`{project.test_schema}`.`raw_orders`"
        project.run_sql(f"create or replace table {raw} (id int, customer string, amount int) using iceberg")
        project.run_sql(f"insert into {raw} values (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)")
        run_dbt(["run", "--full-refresh"])
        save_state()
        return ["run", "--defer", "--state", "state", "--target", "branch"]

    def given(self, project: Any, **values: Any) -> list[str]:
        return ["--vars", json.dumps({"landed": project.test_schema, **values})]

    def test_a_run_clones_what_an_empty_target_lacks(self, project: Any, defer: list[str]) -> None:
        prod, dev = project.test_schema, f"{project.test_schema}_dev"
        ran = messages(run_dbt([*defer, *self.given(project, least=15), "-s", "orders+"]))
        assert {name: ran[name] for name in MODELS} == {
            "orders": "incremental +0 ~0 -1",
            "by_customer": "incremental +0 ~1 -0",
            "log": "incremental +0 ~0 -1",
            "versions": "incremental +0 ~1 -0",
        }
        assert self.read(project, dev, "log") == [(2, 20), (3, 30)]
        assert len(self.read(project, prod, "log")) == 3
        run_dbt([*defer, *self.given(project), "-s", "orders", "--full-refresh"])
        assert self.read(project, dev, "orders") == self.read(project, prod, "orders")

    @pytest.mark.in_turn
    def test_a_run_takes_over_what_clones_of_the_state_have_computed(
        self, project: Any, defer: list[str], capsys: Any
    ) -> None:
        prod, dev, values = project.test_schema, f"{project.test_schema}_dev", self.given(project, least=15)
        run_dbt([*defer, *values, "-s", "orders+"])
        save_state("reviewed")
        project.run_sql(f"insert into `lake`.`{prod}`.`raw_orders` values (4, 'c', 40)")
        said = self.arctic(project, capsys, "promote", "--state", "reviewed", "--target", "prod", "--plan")
        assert f"lake.{prod}.orders: nothing to take over from lake.{dev}.orders" in said
        ran = run_dbt(["run", "--state", "reviewed", "--target", "prod", *values, "-s", "orders+"])
        answers = {result.node.name: result.adapter_response for result in ran}
        assert {name: answers[name]["reason"] for name in MODELS} == {
            "orders": "PROMOTED",
            "by_customer": "PROMOTED",
            "log": "CHANGES",
            "versions": "CHANGES",
        }
        assert messages(ran)["orders"] == "incremental +1 ~0 -1"
        assert self.read(project, prod, "orders") == [(2, "b", 20), (3, "a", 30), (4, "c", 40)]
        assert self.read(project, prod, "by_customer") == [("a", 30, 1), ("b", 20, 1), ("c", 40, 1)]
        again = messages(run_dbt(["run", "--state", "reviewed", "--target", "prod", *values, "-s", "orders+"]))
        assert {name: again[name] for name in MODELS} == dict.fromkeys(MODELS, "unchanged")

    @pytest.mark.in_turn
    def test_models_above_those_of_a_run_are_read_in_the_state(self, project: Any, defer: list[str]) -> None:
        prod, dev = project.test_schema, f"{project.test_schema}_dev"
        below = [*defer, *self.given(project), "-s", "by_customer", "log"]
        for _ in range(2):
            assert messages(run_dbt(below)) == {"by_customer": "unchanged", "log": "unchanged"}
        project.run_sql(f"insert into `lake`.`{prod}`.`raw_orders` values (4, 'c', 40)")
        run_dbt(["run"])
        assert messages(run_dbt(below)) == {
            "by_customer": "incremental +1 ~0 -0",
            "log": "incremental +1 ~0 -0",
        }
        assert self.read(project, dev, "log") == self.read(project, prod, "log")

    def test_a_model_that_cannot_be_a_clone_is_built(self, project: Any, defer: list[str]) -> None:
        values = self.given(project, plain="arctic")
        ran = messages(run_dbt([*defer, *values, "-s", "orders", "plain"]))
        assert ran == {"orders": "unchanged", "plain": "create +2 ~0 -0"}


SNAPSHOT = """
snapshots:
  - name: kept
    relation: ref('numbers')
    config: {unique_key: id, strategy: check, check_cols: all}
"""


class TestClonesOfSeedsAndSnapshots:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"numbers.csv": "id,n\n1,2\n"}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"kept.yml": SNAPSHOT}

    @pytest.fixture(scope="class")
    def profiles_config_update(self, dbt_profile_target: dict[str, Any], unique_schema: str) -> dict[str, Any]:
        outputs = {"default": {**dbt_profile_target, "schema": unique_schema}}
        outputs["dev"] = {**dbt_profile_target, "schema": f"{unique_schema}_dev"}
        return {"test": {"outputs": outputs, "target": "default"}}

    @pytest.fixture(autouse=True)
    def drop_dev(self, project: Any) -> Iterator[None]:
        yield
        relation = project.adapter.Relation.create(database=project.database, schema=f"{project.test_schema}_dev")
        with project.adapter.connection_named("__test"):
            project.adapter.drop_schema(relation)

    def test_a_build_after_a_clone_makes_them_tables_of_its_own(self, project: Any) -> None:
        run_dbt(["build"])
        save_state()
        run_dbt(["clone", "--state", "state", "--target", "dev"])
        project.run_sql(f"insert into `lake`.`{project.test_schema}`.`numbers` values (2, 3)")
        for _ in range(2):
            run_dbt(["build", "--target", "dev"])
            for name in ("numbers", "kept"):
                rows = project.run_sql(f"select id, n from `lake`.`{project.test_schema}_dev`.`{name}`", fetch="all")
                assert [tuple(row) for row in rows] == [(1, 2)]
