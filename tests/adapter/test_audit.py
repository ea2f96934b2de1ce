"""The audit of a project with incremental models, each wrong in its own way, as docs/audit.md shows it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.arctic import cli

ORDERS = """
{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge', file_format='iceberg') }}
select id, customer_id, amount, at, current_timestamp() as loaded_at from {{ source('raw', 'orders') }}
{% if is_incremental() %} where at > (select max(at) from {{ this }}) {% endif %}
"""
NAMED = """
{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
with orders as (
    select * from {{ source('raw', 'orders') }}
    {% if is_incremental() %} where at >= (select coalesce(max(at), timestamp '1970-01-01') from {{ this }}) {% endif %}
), customers as (
    select * from {{ source('raw', 'customers') }}
), final as (
    select orders.id, orders.at, customers.name from orders left join customers on customers.id = orders.customer_id
)
select * from final
"""
RECENT = """
{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
select id, amount, at from {{ source('raw', 'orders') }}
{% if is_incremental() %} where at >= date_sub(current_date(), 3) {% endif %}
"""
APPENDED = """
{{ config(materialized='incremental', incremental_strategy='append') }}
select id, at from {{ source('raw', 'orders') }}
{% if is_incremental() %} where at >= (select max(at) from {{ this }}) {% endif %}
"""
ORDERS_VIEW = "select * from {{ ref('orders') }}"
TOTALS = """
{{ config(materialized='incremental', unique_key='customer_id', incremental_strategy='merge') }}
select customer_id, sum(amount) as total, max(at) as at from {{ ref('orders_view') }}
{% if is_incremental() %} where at > (select max(at) from {{ this }}) {% endif %}
group by customer_id
"""
WIDE = """
{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
select id, at {% for i in range(30) %}, amount + {{ i }} as amount_{{ i }} {% endfor %} from {{ ref('orders') }}
{% if is_incremental() %} where at > (select max(at) from {{ this }}) {% endif %}
"""
CUSTOMERS = """
{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
select id, {{ plain_name('name') }} as name from {{ source('raw', 'customers') }}
"""
FOR_SPARK = """
{% macro plain_name(column) %}{{ return(adapter.dispatch('plain_name')(column)) }}{% endmacro %}
{% macro spark__plain_name(column) %}trim({{ column }}){% endmacro %}
"""
BROKEN = """
{{ config(materialized='incremental') }}
select id from {{ source('raw', 'gone') }}
"""
CREATING = """
{{ config(materialized='incremental') }}
{% if execute and env_var('CREATES', '') %}
  {% do run_query('create table ' ~ this.schema ~ '.made (id int)') %}
{% endif %}
select id from {{ source('raw', 'customers') }}
"""
CLOCK = "{{ config(materialized='incremental') }} select current_timestamp() as loaded_at"
SOURCES = """
sources:
  - name: raw
    database: lake
    schema: "{{ target.schema }}"
    tables:
      - {name: orders, identifier: raw_orders}
      - {name: customers, identifier: raw_customers}
      - {name: gone, identifier: raw_gone}
"""
BEFORE = (
    "create table {raw}orders (id bigint, customer_id bigint, amount double, at timestamp) using iceberg",
    "create table {raw}customers (id bigint, name string) using iceberg",
    "create table {raw}gone (id bigint) using iceberg",
    "insert into {raw}gone values (1)",
    """insert into {raw}orders values (1, 1, 10, timestamp '2024-01-01'), (2, 1, 20, timestamp '2024-01-02'),
       (3, 2, 30, timestamp '2024-01-03'), (4, 2, 40, timestamp '2024-01-04')""",
    "insert into {raw}customers values (1, 'ann'), (2, 'bob')",
)
BETWEEN = (
    "insert into {raw}orders values (5, 1, 50, timestamp '2024-01-05'), (6, 2, 60, timestamp '2024-01-03 12:00')",
    "delete from {raw}orders where id = 1",
    "update {raw}orders set amount = 21 where id = 2",
    "update {raw}customers set name = 'eve' where id = 2",
)
AFTER = (
    "insert into {raw}orders values (7, 1, 70, timestamp '2024-01-06')",
    "drop table {raw}gone",
)


NAMED_ROWS = {
    "orders": {
        ("lost", "late"): [6],
        ("left over", "deleted"): [1],
        ("stale", "silent"): [2],
        ("lost", "pending"): [7],
    },
    "named": {
        ("lost", "late"): [6],
        ("left over", "deleted"): [1],
        ("stale", "joined"): [3],
        ("lost", "pending"): [7],
    },
    "recent": {
        ("lost", "window"): [5, 6, 7],
        ("left over", "deleted"): [1],
        ("stale", "window"): [2],
    },
    "appended": {
        ("lost", "late"): [6],
        ("left over", "deleted"): [1],
        ("doubled", "appended"): [4],
        ("lost", "pending"): [7],
    },
    "totals": {("stale", "partial"): [1], ("stale", "inherited"): [2]},
    "wide": {
        ("lost", "inherited"): [6, 7],
        ("left over", "inherited"): [1],
        ("stale", "inherited"): [2],
    },
}
"""For each model the keys of rows that differ, by kind and cause."""


@pytest.mark.in_turn
class TestAudit:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "orders.sql": ORDERS,
            "orders_view.sql": ORDERS_VIEW,
            "named.sql": NAMED,
            "recent.sql": RECENT,
            "appended.sql": APPENDED,
            "totals.sql": TOTALS,
            "wide.sql": WIDE,
            "customers.sql": CUSTOMERS,
            "broken.sql": BROKEN,
            "creating.sql": CREATING,
            "clock.sql": CLOCK,
            "sources.yml": SOURCES,
        }

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"for_spark.sql": FOR_SPARK}

    @pytest.fixture(scope="class")
    def built(self, project: Any) -> Any:
        raw = f"lake.{project.test_schema}.raw_"
        for statements in (BEFORE, None, BETWEEN, None, AFTER):
            if statements is None:
                run_dbt(["run"])
                continue
            with project.adapter.connection_named("changes"):
                for statement in statements:
                    project.adapter.execute(statement.replace("{raw}", raw))
        return project

    def audit(self, project: Any, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
        where = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        capsys.readouterr()
        code = cli.main(["audit", *options, *where])
        return code, capsys.readouterr().out

    def test_it_names_each_wrong_row_with_its_cause_and_writes_nothing(
        self, built: Any, warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("CREATES", "yes")
        before = list_state(warehouse, built)
        code, out = self.audit(built, capsys, "--json", "--limit", "9")
        assert list_state(warehouse, built) == before
        report = json.loads(out)
        assert code == 1
        assert report["summary"].startswith("1 of 10 models is exact; 20 wrong rows in 6 models; 3 models could not")
        models = {model["name"]: model for model in report["models"]}
        assert {name: list_named(model) for name, model in models.items() if model["differences"]} == NAMED_ROWS
        notes = {name: " ".join(model["notes"]) for name, model in models.items()}
        assert "loaded_at: each run computes another value" in notes["orders"]
        assert "loaded_at: each run computes another value" in notes["clock"]
        assert models["clock"]["error"] == "none of its columns can be compared"
        assert "raw_gone" in models["broken"]["error"]
        assert "runs a statement: create table" in models["creating"]["error"]

    def test_a_page_is_one_file_without_progress(self, built: Any, capsys: pytest.CaptureFixture[str]) -> None:
        code, out = self.audit(built, capsys, "--format", "html", "--select", "customers", "orders")
        assert code == 1
        assert out.startswith("<!DOCTYPE html>")
        code, out = self.audit(built, capsys, "--select", "customers")
        assert (code, out.splitlines()[-1]) == (0, "1 of 1 model is exact")


def list_named(model: dict[str, Any]) -> dict[tuple[str, str], list[int]]:
    """The keys of the examples by kind and cause."""
    return {
        (group["kind"], group["cause"]): [int(next(iter(example["key"].values()))) for example in group["examples"]]
        for group in model["differences"]
    }


def list_state(warehouse: Path, project: Any) -> tuple[Any, ...]:
    """All files of warehouse, project and profile with their contents, and all rows of the catalog."""
    folders = (warehouse, Path(project.project_root), Path(project.profiles_dir))
    files = {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith("catalog.db")
    }
    with closing(sqlite3.connect(f"file:{warehouse}/catalog.db?mode=ro", uri=True)) as connection:
        tables = connection.execute("select * from iceberg_tables order by 1, 2, 3").fetchall()
        return files, tables, connection.execute("select * from iceberg_namespace_properties order by 1, 2").fetchall()
