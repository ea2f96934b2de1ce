"""The `arctic` materialization as a dbt user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import CompilationError

from arctic_runtime.spark.engine.session_pool import SessionPool
from dbt.adapters.arctic.project.compiled_project import load_project

ORDERS = """
{{ config(materialized='arctic', primary_key='order_id', merge=var('merge', 'on_write')) }}
select order_id, customer, amount from {{ source('shop', 'orders') }}
"""
BY_CUSTOMER = """
{{ config(materialized='arctic', primary_key='customer') }}
select customer, count(*) as orders, sum(amount) as amount from {{ ref('orders') }} group by customer
"""
SOURCES = """
sources:
  - name: shop
    schema: "{{ target.schema }}"
    tables: [{name: orders}, {name: events}]
"""
EVENTS = """
{{ config(materialized='arctic', primary_key='order_id', input='changes', sequence_by='lsn', merge='on_read',
          delete_when="op = 'd'", exclude_columns=['op', 'lsn']) }}
select order_id, customer, amount, op, lsn from {{ changes(source('shop', 'events')) }}
{% if is_incremental() %} where customer <> 'ignored later' {% endif %}
"""
AUDIT = """
{{ config(materialized='arctic', primary_key='order_id', input='changes', delete_when="_action = 'delete'") }}
select order_id, customer, _action, _ts from {{ changes(ref('orders')) }}
"""

RUN_AND_TELL_WHAT_IS_LOADED = """
import json, sys
from dbt.cli.main import dbtRunner
done = dbtRunner().invoke(["--quiet", "run", "--threads", "1", "--profiles-dir", sys.argv[1]])
messages = [result.message for result in done.result]
print(json.dumps([messages, sorted({"numpy", "pandas", "pyarrow", "pyiceberg", "pyspark"} & set(sys.modules))]))
"""


def rows(project: Any, sql: str) -> list[tuple[Any, ...]]:
    return sorted(project.run_sql(sql, fetch="all"))


def table(project: Any, name: str) -> str:
    return f"`lake`.`{project.test_schema}`.`{name}`"


def messages(results: Any) -> dict[str, str]:
    return {result.node.name: result.message for result in results}


def make_orders(project: Any) -> None:
    orders = table(project, "orders_landed")
    project.run_sql(f"create table {orders} (order_id bigint, customer string, amount decimal(10,2))")


class Warehouse:
    """A schema with the two upstream tables, and everything that the models need."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        sources = SOURCES.replace("{name: orders}", "{name: orders, identifier: orders_landed}")
        sources = sources.replace("{name: events}", "{name: events, identifier: events_landed}")
        return {"sources.yml": sources, "orders.sql": ORDERS, "by_customer.sql": BY_CUSTOMER}

    @pytest.fixture(scope="class", autouse=True)
    def landed(self, project: Any) -> None:
        make_orders(project)
        events = table(project, "events_landed")
        columns = "order_id bigint, customer string, amount decimal(10,2), op string, lsn bigint"
        project.run_sql(f"create table {events} ({columns})")
        project.run_sql(f"insert into {table(project, 'orders_landed')} values (1,'a',10),(2,'b',20),(3,'a',30)")
        project.run_sql(f"insert into {events} values (1,'a',10,'c',1),(2,'b',20,'c',2)")


class TestLayers(Warehouse):
    """Two layers, from the first run to a full refresh."""

    def test_a_run_publishes_exactly_what_changed_to_the_next_layer(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert messages(run_dbt(["run"])) == {"orders": "create +3 ~0 -0", "by_customer": "create +2 ~0 -0"}
        landed = table(project, "orders_landed")
        project.run_sql(f"insert into {landed} values (4,'c',40)")
        project.run_sql(f"delete from {landed} where order_id = 2")
        project.run_sql(f"update {landed} set amount = 11 where order_id = 1")
        assert messages(run_dbt(["run"])) == {"orders": "incremental +1 ~1 -1", "by_customer": "incremental +1 ~1 -1"}
        assert rows(project, f"select * from {table(project, 'by_customer')}") == [("a", 2, 41), ("c", 1, 40)]
        self.check_nothing_new_takes_no_session(monkeypatch)
        response = json.loads(Path("target/run_results.json").read_text())["results"][0]["adapter_response"]
        assert response["mode"] == "unchanged"
        assert response["reason"] == "NOTHING_NEW"
        self.check_nothing_new_loads_what_it_needs(project)
        assert run_dbt(["run", "--full-refresh"]).results[0].message == "full +0 ~0 -0"

    def check_nothing_new_loads_what_it_needs(self, project: Any) -> None:
        """Loading the others takes longer than all that there is to do; several threads load them from the start."""
        command = [sys.executable, "-c", RUN_AND_TELL_WHAT_IS_LOADED, project.profiles_dir]
        done = subprocess.run(command, cwd=project.project_root, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == [["unchanged", "unchanged"], ["pyiceberg"]]

    def check_nothing_new_takes_no_session(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(pool: SessionPool) -> None:
            raise AssertionError("a session was taken")

        with monkeypatch.context() as patch:
            patch.setattr(SessionPool, "take_session", refuse)
            assert set(messages(run_dbt(["run"])).values()) == {"unchanged"}

    def test_the_arctic_command_leaves_what_dbt_wrote_of_its_last_run_alone(self, project: Any) -> None:
        run_dbt(["run", "--select", "orders"])
        before = {file: file.stat().st_mtime_ns for file in Path("target").rglob("*")}
        loaded = load_project(Path(project.project_root), Path(project.profiles_dir), None)
        assert [model.table.name for model in loaded.models] == ["by_customer", "orders"]
        assert {file: file.stat().st_mtime_ns for file in Path("target").rglob("*")} == before

    def test_empty_runs_change_no_data(self, project: Any) -> None:
        run_dbt(["run"])
        before = rows(project, f"select * from {table(project, 'orders')}")
        run_dbt(["run", "--empty"])
        assert rows(project, f"select * from {table(project, 'orders')}") == before
        project.run_sql(f"insert into {table(project, 'orders_landed')} values (50,'z',1)")
        run_dbt(["run", "--empty"])
        assert messages(run_dbt(["run"]))["orders"] == "incremental +1 ~0 -0"

    def test_docs_label_change_tables_as_such(self, project: Any) -> None:
        run_dbt(["run"])
        catalog = run_dbt(["docs", "generate"])
        kinds = {node.metadata.name: node.metadata.type for node in catalog.nodes.values()}
        assert kinds["orders"] == "arctic table"
        described = project.adapter.catalog_reader.describe_relation(project.test_schema, "orders__changes")
        assert described.properties["arctic.kind"] == "changes"


class TestEvents(Warehouse):
    """Change events become a keyed table, and a keyed table's changes another one."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        sources = SOURCES.replace("{name: orders}", "{name: orders, identifier: orders_landed}")
        sources = sources.replace("{name: events}", "{name: events, identifier: events_landed}")
        return {"sources.yml": sources, "orders.sql": EVENTS, "audit.sql": AUDIT}

    def test_each_event_counts_once_and_is_incremental_works(self, project: Any) -> None:
        assert messages(run_dbt(["run"])) == {"orders": "create +2 ~0 -0", "audit": "create +2 ~0 -0"}
        events = table(project, "events_landed")
        project.run_sql(f"insert into {events} values (1,'a',12,'u',4),(2,'b',20,'d',5),(3,'c',7,'c',6)")
        project.run_sql(f"insert into {events} values (1,'late',1,'u',3),(9,'ignored later',7,'c',7)")
        assert messages(run_dbt(["run"])) == {"orders": "incremental +1 ~1 -1", "audit": "incremental +1 ~0 -1"}
        assert set(messages(run_dbt(["run"])).values()) == {"unchanged"}
        assert rows(project, f"select order_id, customer, amount from {table(project, 'orders')}") == [
            (1, "a", 12),
            (3, "c", 7),
        ]
        assert rows(project, f"select order_id from {table(project, 'audit')}") == [(1,), (3,)]
        shown = run_dbt(["show", "--select", "orders"])
        assert len(shown.results[0].agate_table.rows) == 5


class TestContract(Warehouse):
    """Enforced contracts, documentation in the catalog, and hooks."""

    MODEL = """
{{ config(materialized='arctic', primary_key='order_id', merge='on_read',
          pre_hook="create table if not exists {{ this.include(identifier=false) }}.log as select 'pre' as at",
          post_hook="insert into {{ this.include(identifier=false) }}.log values ('post')") }}
select order_id, customer, amount from {{ source('shop', 'orders') }}
"""
    YAML = """
models:
  - name: orders
    description: "Orders, one a row; it's \\"quoted\\""
    config:
      contract: {enforced: true}
      persist_docs: {relation: true, columns: true}
    columns:
      - {name: order_id, data_type: bigint, description: "The order's key", constraints: [{type: not_null}]}
      - {name: customer, data_type: string, constraints: [{type: not_null}]}
      - {name: amount, data_type: "decimal(10,2)"}
"""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        sources = SOURCES.replace("{name: orders}", "{name: orders, identifier: orders_landed}")
        return {"sources.yml": sources, "orders.sql": self.MODEL, "schema.yml": self.YAML}

    def test_dbt_warns_of_those_constraints_alone_that_nobody_enforces(self, project: Any) -> None:
        _, log = run_dbt_and_capture(["parse", "--no-partial-parse"])
        assert "not supported for" not in log
        assert "not enforced" not in log
        write_file(self.YAML.replace("type: not_null", "type: unique"), "models", "schema.yml")
        _, log = run_dbt_and_capture(["parse"])
        assert log.count("The constraint type unique is not enforced by arctic") == 2
        write_file(self.YAML, "models", "schema.yml")

    def test_it_holds_and_is_documented(self, project: Any) -> None:
        run_dbt(["run"])
        described = project.adapter.catalog_reader.describe_relation(project.test_schema, "orders")
        assert described.comment == 'Orders, one a row; it\'s "quoted"'
        assert described.columns[0].comment == "The order's key"
        assert rows(project, f"select at from {table(project, 'log')}") == [("post",), ("pre",)]

    def test_a_null_against_the_contract_is_an_error_and_nothing_is_written(self, project: Any) -> None:
        before = rows(project, f"select * from {table(project, 'orders')}")
        project.run_sql(f"insert into {table(project, 'orders_landed')} values (7, null, 1)")
        message = run_dbt(["run"], expect_pass=False).results[0].message
        assert "customer" in message
        assert "nothing was written" in message
        assert rows(project, f"select * from {table(project, 'orders')}") == before
        project.run_sql(f"delete from {table(project, 'orders_landed')} where order_id = 7")

    def test_another_type_than_the_contract_says_is_an_error(self, project: Any) -> None:
        write_file(self.YAML.replace("decimal(10,2)", "int"), "models", "schema.yml")
        message = run_dbt(["run"], expect_pass=False).results[0].message
        assert "enforced contract that failed" in message
        assert "amount" in message


class TestConfiguration:
    """Everything that is wrong with a model's configuration is said when the project is parsed."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"m.sql": "select 1 as id"}

    @pytest.mark.parametrize(
        ("config", "said"),
        [
            ("materialized='arctic', primry_key='id'", "did you mean `primary_key`"),
            ("materialized='arctic', on_missing_key='tabel'", "did you mean `table`"),
            ("materialized='arctic', primary_key='id', merg='on_read'", "did you mean `merge`"),
            ("materialized='arctic', primary_key='id', merge='on_raed'", "did you mean `on_read`"),
            ("materialized='arctic', primary_key='id', history='scd1'", "did you mean `scd2`"),
            ("materialized='arctic', primary_key='id', delete_when='x'", "needs `input: changes`"),
            ("materialized='arctic', primary_key='id', incremental_predicates=['id > 1']", "has no counterpart"),
            ("materialized='arctic', primary_key='id', retention={'changes': 7}", "must be an age"),
            ("materialized='arctic', primary_key='id', freshness='30s'", "use `target_lag`"),
        ],
    )
    def test_it_is_an_error_at_parse_time(self, project: Any, config: str, said: str) -> None:
        write_file("{{ config(" + config + ") }} select 1 as id", "models", "m.sql")
        with pytest.raises(CompilationError, match=said.replace("(", "\\(")):
            run_dbt(["parse"])

    def test_changes_belong_into_arctic_models_only(self, project: Any) -> None:
        write_file("{{ config(materialized='table') }} select * from {{ changes(this) }}", "models", "m.sql")
        assert "materialized='arctic'" in run_dbt(["run"], expect_pass=False).results[0].message


class TestBadRows(Warehouse):
    """Rows that break the key are named, and nothing of the run is left."""

    @pytest.mark.parametrize(
        ("values", "said"), [("(3,'x',1)", "duplicate key"), ("(null,'x',1)", "null key")], ids=["duplicate", "null"]
    )
    def test_the_error_names_column_and_rows(self, project: Any, values: str, said: str) -> None:
        run_dbt(["run"])
        before = rows(project, f"select * from {table(project, 'orders')}")
        project.run_sql(f"insert into {table(project, 'orders_landed')} values {values}")
        results, log = run_dbt_and_capture(["run"], expect_pass=False)
        assert messages(results)["by_customer"] != "create"
        assert said in log
        assert "order_id" in log
        assert "at org.apache" not in log
        assert rows(project, f"select * from {table(project, 'orders')}") == before
        project.run_sql(f"delete from {table(project, 'orders_landed')} where customer = 'x'")

    def test_retry_continues_where_the_failed_run_stopped(self, project: Any) -> None:
        landed = table(project, "orders_landed")
        project.run_sql(f"insert into {landed} values (1,'x',1)")
        run_dbt(["run"], expect_pass=False)
        project.run_sql(f"delete from {landed} where customer = 'x'")
        assert set(messages(run_dbt(["retry"]))) == {"orders", "by_customer"}


class TestSwitches(Warehouse):
    """A relation with the name of a model is replaced if it is the model's own, and never in silence else."""

    def test_a_change_of_merge_needs_a_full_refresh(self, project: Any) -> None:
        run_dbt(["run", "--select", "orders"])
        for merge in ("on_read", "on_write"):
            chosen = ["run", "--select", "orders", "--vars", json.dumps({"merge": merge})]
            message = run_dbt(chosen, expect_pass=False).results[0].message
            assert "another relation has its name" in message
            assert "--full-refresh" in message
            assert run_dbt([*chosen, "--full-refresh"]).results[0].message == "full +0 ~0 -0"
            assert len(rows(project, f"select * from {table(project, 'orders')}")) == 3
