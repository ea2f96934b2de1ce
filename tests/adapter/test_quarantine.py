"""Rows that fail tests are in the quarantine of their model, until they pass."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from arctic_runtime.effects import set_failpoint
from dbt.adapters.arctic import cli

ORDERS = """{{ config(materialized='arctic', primary_key='id',
                      on_failed_row=var('on_failed_row', 'quarantine')) }}
select id, customer, amount, state from {{ source('raw', 'orders') }} -- all of them
"""
BY_CUSTOMER = """{{ config(materialized='arctic', primary_key='customer', merge='on_read',
                      on_failed_row='quarantine') }}
select customer, sum(amount) as total, count(*) as n from {{ ref('orders') }} group by customer
"""
TO_MEND = """{{ config(materialized='arctic', primary_key=['id', 'test']) }}
select id, test from {{ quarantine(ref('orders')) }} lateral view explode(_failed_tests) as test
"""
EXPRESSION = """{% test expression_is_true(model, expression, column_name=None) %}
select 1 from {{ model }} where not({{ column_name or '' }} {{ expression }})
{% endtest %}
"""
YAML = """
sources:
  - name: raw
    database: lake
    schema: "{{ var('landed', target.schema) }}"
    tables: [{name: orders, identifier: raw_orders}]
models:
  - name: orders
    data_tests:
      - dbt_utils.expression_is_true:
          name: sane
          arguments: {expression: "orders.amount < 50 or customer < 3"}
    columns:
      - name: id
        data_tests: [unique, not_null]
      - name: amount
        data_tests:
          - not_null:
              name: amount_known
              config: {where: "state <> 'draft'"}
          - dbt_utils.expression_is_true:
              name: amount_positive
              arguments: {expression: ">= 0"}
              config: {severity: warn}
          - dbt_utils.expression_is_true:
              name: amount_small
              arguments: {expression: "<= 60"}
      - name: state
        data_tests:
          - accepted_values:
              name: state_known
              arguments: {values: [paid, open, draft]}
  - name: by_customer
    data_tests:
      - dbt_utils.expression_is_true:
          name: total_small
          arguments: {expression: "total <= 150"}
"""
Row = tuple[Any, ...]

CHANGES = (
    "update lake.{schema}.raw_orders set state = 'lost' where id % 7 = {n} % 7",
    "update lake.{schema}.raw_orders set state = 'open' where state = 'lost' and id % 2 = {n} % 2",
    "update lake.{schema}.raw_orders set amount = amount + 30 where id between {n} and {n} + 3",
    "update lake.{schema}.raw_orders set amount = amount - 25 where amount > 50",
    "update lake.{schema}.raw_orders set amount = null where id = {n}",
    "update lake.{schema}.raw_orders set state = 'draft' where amount is null and id % 2 = {n} % 2",
    "delete from lake.{schema}.raw_orders where id = {n}",
    "insert into lake.{schema}.raw_orders select max(id) + 1, {n} % 5, {n} * 2, 'paid' from lake.{schema}.raw_orders",
)


def list_failed_tests(row: Row) -> list[str]:
    """The tests that a row of orders fails, as SQL's rules of nulls have it."""
    _, customer, amount, state = row
    fails = {
        "amount_known": amount is None and state != "draft",
        "amount_small": amount is not None and amount > 60,
        "sane": amount is not None and amount >= 50 and customer >= 3,
        "state_known": state not in ("paid", "open", "draft"),
    }
    return [name for name, failed in fails.items() if failed]


def lose_at(effect: str, time: int) -> Callable[[str, Callable[[], Any]], Any]:
    """A failpoint that raises an error in place of an effect, the given time that it is performed, and from then on."""
    times = count(1)

    def lose(name: str, action: Callable[[], Any]) -> Any:
        if name == effect and next(times) >= time:
            raise OSError("lost")
        return action()

    return lose


class Quarantined:
    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        folder = Path("dbt_utils")
        (folder / "macros").mkdir(parents=True, exist_ok=True)
        (folder / "dbt_project.yml").write_text("{name: dbt_utils, version: 1.0.0, config-version: 2}")
        (folder / "macros" / "expression_is_true.sql").write_text(EXPRESSION)
        return {"packages": [{"local": str(folder.absolute())}]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"orders.sql": ORDERS, "by_customer.sql": BY_CUSTOMER, "to_mend.sql": TO_MEND, "schema.yml": YAML}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"flags": {"require_generic_test_arguments_property": True}}

    @pytest.fixture(autouse=True)
    def raw_orders(self, project: Any) -> Iterator[None]:
        run_dbt(["deps"])
        run_dbt(["parse"])
        columns = (
            "cast(id as int) as id, cast(id % 5 as int) as customer, cast(2 * id as int) as amount, 'paid' as state"
        )
        self.sql(project, f"create or replace table lake.{{schema}}.raw_orders as select {columns} from range(40)")
        yield
        for schema in (project.test_schema, f"{project.test_schema}_dev"):
            relation = project.adapter.Relation.create(database=project.database, schema=schema)
            with project.adapter.connection_named("__test"):
                project.adapter.drop_schema(relation)
                if schema == project.test_schema:
                    project.adapter.create_schema(relation)

    @pytest.fixture(scope="class")
    def profiles_config_update(self, dbt_profile_target: dict[str, Any], unique_schema: str) -> dict[str, Any]:
        outputs = {"default": {**dbt_profile_target, "schema": unique_schema}}
        outputs["dev"] = {**dbt_profile_target, "schema": f"{unique_schema}_dev"}
        return {"test": {"outputs": outputs, "target": "default"}}

    def arctic(self, project: Any, *arguments: str) -> int:
        folders = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        return cli.main([*arguments, *folders])

    def sql(self, project: Any, text: str) -> Any:
        return project.run_sql(text.format(schema=project.test_schema), fetch="all")

    def rows(self, project: Any, table: str) -> list[Row]:
        return sorted(map(tuple, self.sql(project, f"select * from lake.{{schema}}.{table}")))

    def check_orders(self, project: Any) -> int:
        """Compares the model and its quarantine with the rows of the source; returns the number of rows that fail."""
        failed = {row: list_failed_tests(row) for row in self.rows(project, "raw_orders")}
        assert self.rows(project, "orders") == [row for row, names in failed.items() if not names]
        wanted = [(*row, names) for row, names in failed.items() if names]
        assert self.rows(project, "orders__quarantine") == wanted
        return len(wanted)

    def check_customers(self, project: Any) -> None:
        """Compares the model below with the rows that passed."""
        sums: dict[Any, list[Any]] = {}
        for _, customer, amount, _ in self.rows(project, "orders"):
            sums.setdefault(customer, []).append(amount)
        known = {customer: [amount for amount in amounts if amount is not None] for customer, amounts in sums.items()}
        groups = [(c, sum(known[c]) if known[c] else None, len(amounts)) for c, amounts in sorted(sums.items())]
        large = [group for group in groups if group[1] is not None and group[1] > 150]
        assert self.rows(project, "by_customer") == [group for group in groups if group not in large]
        assert self.rows(project, "by_customer__quarantine") == [(*group, ["total_small"]) for group in large]


class TestQuarantine(Quarantined):
    @pytest.mark.slow
    def test_random_changes(self, project: Any) -> None:
        """After each run both tables have the rows of the source that are theirs, and in the end all tests pass."""
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        chance = random.Random(seed)
        for command in ("run", "run", "build"):
            for change in chance.sample(CHANGES, 3):
                self.sql(project, change.replace("{n}", str(chance.randrange(40))))
            results = {result.node.name: result for result in run_dbt([command])}
            failing = self.check_orders(project)
            self.check_customers(project)
            to_mend = [(row[0], test) for row in self.rows(project, "orders__quarantine") for test in row[-1]]
            assert self.rows(project, "to_mend") == to_mend
            assert results["orders"].adapter_response["quarantined"] == failing
            assert (f"{failing} in quarantine" in results["orders"].message) == (failing > 0)

    def test_other_tests_are_another_query(self, project: Any) -> None:
        """A test that is added, changed or no longer an error moves the rows that it is about, and no others."""
        run_dbt(["run", "-s", "orders"])
        assert self.check_orders(project) == 11
        file = Path("models", "schema.yml")
        for text, message, rows in (
            (YAML.replace('"<= 60"', '"<= 4"'), "incremental +0 ~0 -26; 37 in quarantine", 37),
            (YAML.replace("[paid, open, draft]", "[open]"), "incremental +0 ~0 -3; 40 in quarantine", 40),
            (YAML.replace("[paid, open, draft]", "[open]").replace("state_known", "other"), "unchanged; 40", 40),
            (YAML, "incremental +29 ~0 -0; 11 in quarantine", 11),
        ):
            file.write_text(text)
            (result,) = run_dbt(["run", "-s", "orders"])
            assert message in result.message
            assert len(self.rows(project, "orders__quarantine")) == rows
        (result,) = run_dbt(["run", "-s", "orders", "--vars", "{on_failed_row: hold}"])
        assert len(self.rows(project, "orders")) == 40

    @pytest.mark.slow
    def test_runs_that_end_early(self, project: Any) -> None:
        """Whichever commit of a run is its last, a row that fails is not lost, and the next run is exact."""
        run_dbt(["run", "-s", "orders"])
        for place, (effect, time) in enumerate((("commit.publish", 2), ("base.overwrite", 1), ("base.overwrite", 2))):
            self.sql(project, f"update lake.{{schema}}.raw_orders set state = 'lost' where id % 4 = {place}")
            self.sql(project, f"update lake.{{schema}}.raw_orders set state = 'open' where id % 4 = {place} - 1")
            before = self.rows(project, "orders")
            with set_failpoint(lose_at(effect, time)):
                run_dbt(["run", "-s", "orders"], expect_pass=False)
            if (effect, time) == ("commit.publish", 2):
                assert self.rows(project, "orders") == before
                assert {row[0] for row in before if row[0] % 4 == place} <= self.keys(project, "orders__quarantine")
            run_dbt(["run", "-s", "orders"])
            failing = self.check_orders(project)
        assert {r.message for r in run_dbt(["run", "-s", "orders"])} == {f"unchanged; {failing} in quarantine"}

    @pytest.mark.slow
    @pytest.mark.parametrize("point", ["commit.publish=kill@1", "commit.publish=kill-after@1", "commit.publish=kill@2"])
    def test_killed(self, project: Any, point: str) -> None:
        """A process that is killed before or after the quarantine is published loses no row."""
        run_dbt(["run", "-s", "orders"])
        self.sql(project, "update lake.{schema}.raw_orders set state = 'lost' where id < 5")
        folders = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        command = [sys.executable, "-m", "dbt.cli.main", "run", "-s", "orders", *folders]
        environment = {**os.environ, "ARCTIC_FAILPOINTS": point, "PYTHONPATH": str(Path(__file__).parents[2])}
        assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode != 0
        assert self.keys(project, "orders") | self.keys(project, "orders__quarantine") == set(range(40))
        run_dbt(["run", "-s", "orders"])
        assert self.check_orders(project) == 16

    def keys(self, project: Any, table: str) -> set[int]:
        return {row[0] for row in self.rows(project, table)}

    def test_clone(self, project: Any, capsys: Any) -> None:
        run_dbt(["run"])
        Path("state").mkdir(exist_ok=True)
        shutil.copy(Path("target", "manifest.json"), "state")
        dev = ["--target", "dev", "--vars", json.dumps({"landed": project.test_schema})]
        assert {r.node.name for r in run_dbt(["clone", "--state", "state", *dev])} == {
            "orders",
            "by_customer",
            "to_mend",
        }
        schema = f"{project.test_schema}_dev"
        for table in ("orders", "orders__quarantine", "by_customer__quarantine"):
            rows = sorted(map(tuple, project.run_sql(f"select * from `lake`.`{schema}`.`{table}`", fetch="all")))
            assert rows == self.rows(project, table)
        ran = run_dbt(["run", *dev])
        assert {r.message for r in ran} == {"unchanged; 11 in quarantine", "unchanged; 3 in quarantine", "unchanged"}
        capsys.readouterr()
        self.sql(project, "update lake.{schema}.raw_orders set amount = 1 where id = 38")
        run_dbt(["run", *dev])
        assert self.arctic(project, "diff", "--target", "dev", "--state", "state", "orders__quarantine", "--only") == 1
        assert "rows: 0 added, 1 removed, 0 changed" in capsys.readouterr().out

    @pytest.mark.slow
    def test_operations(self, project: Any, capsys: Any) -> None:
        """A key is forgotten in both tables, `arctic reset` drops both, and others take the quarantine by its name."""
        run_dbt(["run", "-s", "orders"])
        self.sql(project, "update lake.{schema}.raw_orders set state = 'lost' where id = 3")
        run_dbt(["run", "-s", "orders"])
        self.sql(project, "delete from lake.{schema}.raw_orders where id = 3")
        assert self.arctic(project, "forget", "orders", "--key", "3", "--yes") == 0
        said = capsys.readouterr().out
        for table in ("orders", "orders__quarantine"):
            assert f"forgotten: 1 key(s) of lake.{project.test_schema}.{table};" in said
        assert self.check_orders(project) == 11
        assert self.arctic(project, "verify", "orders", "orders__quarantine") == 0
        assert self.arctic(project, "status", "orders__quarantine") == 0
        assert "11 rows" in capsys.readouterr().out
        assert self.arctic(project, "reset", "orders", "--yes") == 0
        assert {name for name in self.tables(project) if name.startswith("orders")} == set()
        run_dbt(["run", "-s", "orders"])
        assert self.check_orders(project) == 11

    def tables(self, project: Any) -> list[str]:
        place = project.adapter.Relation.create(database=project.database, schema=project.test_schema)
        with project.adapter.connection_named("__test"):
            return [relation.identifier for relation in project.adapter.list_relations_without_caching(place)]


@pytest.mark.in_turn
class TestPublishedWhole(Quarantined):
    """With `publish: build` both tables are visible at once."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**profile_target, "publish": "build"}

    def test_both_are_published_at_once(self, project: Any) -> None:
        run_dbt(["run", "-s", "orders", "by_customer"])
        assert self.check_orders(project) == 11
        before = [self.rows(project, table) for table in ("orders", "orders__quarantine")]
        self.sql(project, "update lake.{schema}.raw_orders set state = 'lost' where id = 3")
        self.sql(project, "update lake.{schema}.raw_orders set amount = 1 where id > 30")
        with set_failpoint(lose_at("build.publish", 1)), pytest.raises(OSError, match="lost"):
            self.arctic(project, "run", "--once")
        assert [self.rows(project, table) for table in ("orders", "orders__quarantine")] == before
        assert self.arctic(project, "run", "--once") == 0
        assert self.check_orders(project) == 3
        self.check_customers(project)
