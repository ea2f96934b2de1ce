"""In a build, a test that passed in the last one looks at changed rows alone, and finds what the whole test finds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.properties import PASSED_TESTS

ORDERS = """{{ config(materialized='arctic', primary_key='id', merge=var('merge', 'on_write')) }}
select id, customer, amount, state from {{ source('raw', 'orders') }}
"""
CUSTOMERS = """{{ config(materialized='arctic', primary_key='id') }}
select id from {{ source('raw', 'customers') }}
"""
POSITIVE = """{% test positive(model, column_name) %}
select 1 from {{ model }} where not({{ column_name }} >= {{ var('least', 0) }})
{% endtest %}
{% test few_rows(model) %}
select count(*) as n from {{ model }} having count(*) > 1000
{% endtest %}
"""
YAML = """
sources:
  - name: raw
    database: lake
    schema: "{{ target.schema }}"
    tables: [{name: orders, identifier: raw_orders}, {name: customers, identifier: raw_customers}]
models:
  - name: orders
    data_tests: [few_rows]
    columns:
      - name: id
        data_tests: [unique]
      - name: customer
        data_tests:
          - relationships:
              arguments: {to: ref('customers'), field: id}
      - name: amount
        data_tests:
          - positive
          - not_null:
              config: {where: "state <> 'draft'"}
      - name: state
        data_tests:
          - accepted_values:
              arguments: {values: [paid, open, draft]}
"""
ROW_TESTS = {"unique", "relationships", "positive", "not_null", "accepted_values"}

CHANGES = (
    "update lake.{schema}.raw_orders set state = 'lost' where id = {n}",
    "update lake.{schema}.raw_orders set state = 'open' where state = 'lost'",
    "update lake.{schema}.raw_orders set amount = -amount where id between {n} and {n} + 2",
    "update lake.{schema}.raw_orders set amount = abs(amount)",
    "update lake.{schema}.raw_orders set amount = null where id = {n}",
    "update lake.{schema}.raw_orders set amount = 1 where amount is null",
    "delete from lake.{schema}.raw_orders where id = {n}",
    "update lake.{schema}.raw_orders set customer = {n} % 12 where id = {n}",
    "delete from lake.{schema}.raw_customers where id = {n} % 9 + 1",
    "merge into lake.{schema}.raw_customers c using (select id from range(1, 12)) n on c.id = n.id "
    "when not matched then insert *",
)
FAILS: dict[str, Callable[[Any, Any, Any, set[int]], bool]] = {
    "accepted_values": lambda _, __, state, ___: state == "lost",
    "not_null": lambda _, amount, __, ___: amount is None,
    "positive": lambda _, amount, __, ___: amount is not None and amount < 0,
    "relationships": lambda customer, _, __, customers: customer not in customers,
}


SLOW = pytest.mark.slow


@pytest.mark.in_turn
class TestRowTests:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"orders.sql": ORDERS, "customers.sql": CUSTOMERS, "schema.yml": YAML}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"positive.sql": POSITIVE}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"flags": {"require_generic_test_arguments_property": True}}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**profile_target, "publish": "build"}

    @pytest.fixture(autouse=True)
    def raw_tables(self, project: Any) -> Iterator[None]:
        self.sql(project, "create or replace table lake.{schema}.raw_customers as select id from range(1, 10)")
        columns = "cast(id as int) as id, id % 9 + 1 as customer, cast(id as int) as amount, 'paid' as state"
        self.sql(project, f"create or replace table lake.{{schema}}.raw_orders as select {columns} from range(100)")
        yield
        with project.adapter.connection_named("__test"):
            for name in ("orders", "customers"):
                for part in ("", "__changes", "__base", "__totals"):
                    relation = project.adapter.get_relation(project.database, project.test_schema, name + part)
                    if relation is not None:
                        project.adapter.drop_relation(relation)

    def sql(self, project: Any, text: str) -> Any:
        return project.run_sql(text.format(schema=project.test_schema), fetch="all")

    def build(self, *arguments: str, failing: str = "", command: str = "build") -> dict[str, int]:
        """Runs a build; returns the number of changed rows that each test looked at, for tests that did so.

        The tests with names that begin with `failing` must fail, and no others.
        """
        results = run_dbt([command, *arguments], expect_pass=not failing)
        failed = {result.node.name for result in results if str(result.status) == "fail"}
        assert all(name.startswith(failing) for name in failed)
        assert bool(failed) == bool(failing)
        names = {r.node.name: r.node.test_metadata.name for r in results if hasattr(r.node, "test_metadata")}
        return {
            names[result.node.name]: result.adapter_response["changed_rows"]
            for result in results
            if "changed_rows" in result.adapter_response
        }

    def remembered(self, project: Any) -> dict[str, Any]:
        changes = CatalogReader(project.adapter.profile).load_table(project.test_schema, "orders__changes")
        entries: dict[str, Any] = json.loads(changes.properties.get(PASSED_TESTS, "{}"))
        return entries

    @pytest.mark.parametrize("merge", ["on_write", "on_read"])
    def test_changed_rows_alone(self, project: Any, merge: str) -> None:
        given = ["--vars", f"{{merge: {merge}}}"]
        assert self.build(*given) == {}
        assert len(self.remembered(project)) == len(ROW_TESTS)
        self.sql(project, "update lake.{schema}.raw_orders set amount = 7 where id = 3")
        self.sql(project, "insert into lake.{schema}.raw_orders values (200, 1, 5, 'open')")
        assert self.build(*given) == dict.fromkeys(ROW_TESTS, 2)
        assert self.build(*given) == dict.fromkeys(ROW_TESTS, 0)
        self.sql(project, "update lake.{schema}.raw_orders set amount = 8 where id = 4")
        run_dbt(["run", *given])
        self.sql(project, "update lake.{schema}.raw_orders set amount = 9 where id = 4")
        assert self.build(*given) == dict.fromkeys(ROW_TESTS, 2)

    @pytest.mark.parametrize(
        ("change", "failing"),
        [
            ("update lake.{schema}.raw_orders set amount = null where id = 3", "not_null"),
            ("delete from lake.{schema}.raw_customers where id = 5", "relationships"),
            *(
                pytest.param(f"update lake.{{schema}}.raw_orders set {change} where id = 3", failing, marks=SLOW)
                for change, failing in (
                    ("state = 'lost'", "accepted_values"),
                    ("amount = -1", "positive"),
                    ("customer = 77", "relationships"),
                )
            ),
        ],
    )
    def test_failing_rows_are_found(self, project: Any, change: str, failing: str) -> None:
        self.build()
        before = self.remembered(project)
        self.sql(project, "insert into lake.{schema}.raw_orders values (200, 1, null, 'draft')")
        self.sql(project, change)
        assert set(self.build(failing=failing)) == ROW_TESTS
        assert self.remembered(project) == before
        self.build("--exclude", "test_type:generic")
        self.sql(project, "insert into lake.{schema}.raw_orders values (201, 1, null, 'draft')")
        assert set(self.build(failing=failing)) == ROW_TESTS

    @pytest.mark.slow
    def test_random_changes(self, project: Any) -> None:
        """Round after round, the tests on changed rows find what follows from the rows of the sources."""
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        chance = random.Random(seed)
        self.build()
        for _ in range(5):
            for change in chance.sample(CHANGES, 2):
                self.sql(project, change.replace("{n}", str(chance.randrange(100))))
            orders = self.sql(project, "select id, customer, amount, state from lake.{schema}.raw_orders")
            customers = {row[0] for row in self.sql(project, "select id from lake.{schema}.raw_customers")}
            wanted = {name for name, fails in FAILS.items() if any(fails(*row[1:], customers) for row in orders)}
            results = run_dbt(["build"], expect_pass=not wanted)
            tests = [result for result in results if hasattr(result.node, "test_metadata")]
            assert {r.node.test_metadata.name for r in tests if str(r.status) == "fail"} == wanted
            looked = {r.node.test_metadata.name for r in tests if "changed_rows" in r.adapter_response}
            assert looked == ROW_TESTS

    def test_all_rows_where_the_test_is_another(self, project: Any) -> None:
        self.build()
        assert set(self.build("--vars", "{least: -5}")) == ROW_TESTS - {"positive"}
        self.sql(project, "update lake.{schema}.raw_orders set amount = -2 where id = 3")
        assert set(self.build("--vars", "{least: -5}")) == ROW_TESTS
        assert set(self.build("--vars", "{least: -1}", failing="positive")) == ROW_TESTS - {"positive"}
        assert self.build("--vars", "{least: -5}", "--full-refresh") == {}
        assert self.build("--vars", "{least: -5}", command="test") == {}
