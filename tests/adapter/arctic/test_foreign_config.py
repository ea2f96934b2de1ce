"""A project that was written for other warehouses runs once its models say `materialized: arctic`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import CompilationError

ROWS = "from values (1, date'2024-01-01', 'a'), (2, date'2024-02-01', 'b') as t(id, day, region)"
ORDERS = (
    """
{{ config(
    materialized='arctic', unique_key='id', incremental_strategy='merge', cluster_by=['day', 'region'],
    partition_by={'field': 'day', 'data_type': 'date', 'granularity': 'month'}, labels={'team': 'shop'},
    skip_matched_step=false, target_lag='10 minutes'
) }}
select id, day, region"""
    + f" {ROWS} {{% if is_incremental() %}} where false {{% endif %}}"
)
COUNTS = """
{{ config(materialized='arctic', unique_key='region', incremental_strategy='microbatch', snowflake_warehouse='large') }}
select region, count(*) as n from {{ ref('orders') }} group by region
"""
DAYS = """
{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partitioned_by=['day'], dist='even',
          clustered_by='id', buckets=4) }}
select {{ 'id + 10 as id' if is_incremental() else 'id' }}, day, region""" + (
    f" {ROWS} {{% if is_incremental() %}} where id = 1 {{% endif %}}"
)
REFUSED = """
{{ config(materialized='arctic', unique_key='id', matched_condition='s.id > t.id') }} select id from {{ ref('orders') }}
"""
HEADLINE = "Settings of other adapters, and what they mean here"


@pytest.mark.in_turn
class TestForeignConfig:
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {"+file_format": "delta", "+transient": False, "+databricks_tags": {"team": "shop"}},
            "seeds": {"+file_format": "parquet"},
        }

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"regions.csv": "region,name\na,north\n"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        view = "{{ config(materialized='view', secure=true) }} select id from {{ ref('orders') }}"
        return {"orders.sql": ORDERS, "counts.sql": COUNTS, "days.sql": DAYS, "shown.sql": view}

    def fetch_rows(self, project: Any, name: str) -> list[Any]:
        return sorted(project.run_sql(f"select * from `lake`.{project.test_schema}.{name}", fetch="all"))

    def load_table(self, project: Any, name: str) -> Any:
        return project.adapter.catalog_reader.load_table(project.test_schema, name)

    def test_its_tables_are_built_as_it_says_and_what_is_left_out_is_said_once(self, project: Any) -> None:
        _, output = run_dbt_and_capture(["build"])
        assert output.count(HEADLINE) == 1
        assert "`cluster_by` (Snowflake, BigQuery): used as `sort_key` [orders]" in output
        assert (
            "`file_format` (Spark, Databricks, Trino): every table is an Iceberg table of Parquet files [5 in" in output
        )
        assert "`secure` (Snowflake): access is set in the catalog or the storage [shown]" in output
        orders = self.load_table(project, "orders")
        assert [str(field.transform) for field in orders.spec().fields][:1] == ["month"]
        assert [orders.schema().find_column_name(field.source_id) for field in orders.sort_order().fields][:2] == [
            "day",
            "region",
        ]
        assert [field.name for field in self.load_table(project, "days").spec().fields] == ["day"]

        results, output = run_dbt_and_capture(["build"])
        assert output.count(HEADLINE) == 1
        assert {r.node.name: r.message for r in results if r.node.name in ("orders", "counts")} == {
            "orders": "unchanged",
            "counts": "unchanged",
        }
        assert [row[0] for row in self.fetch_rows(project, "orders")] == [1, 2]
        assert self.fetch_rows(project, "counts") == [("a", 1), ("b", 1)]
        assert [row[0] for row in self.fetch_rows(project, "days")] == [2, 11]

    def test_what_would_change_rows_is_refused_before_anything_runs(self, project: Any) -> None:
        write_file(REFUSED, project.project_root, "models", "refused.sql")
        with pytest.raises(CompilationError, match=r"models/refused.sql: model.test.refused: `matched_condition`"):
            run_dbt(["run"], expect_pass=False)
        write_file(
            REFUSED.replace("matched_condition='s.id > t.id'", "on_foreign_config='error'"),
            project.project_root,
            "models",
            "refused.sql",
        )
        with pytest.raises(CompilationError, match=r"are an error by `on_foreign_config: error`"):
            run_dbt(["run"], expect_pass=False)
        assert "refused" not in project.adapter.catalog_reader.list_relations(project.test_schema)
