"""The models of the page on history, as a dbt user runs them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from dbt.exceptions import CompilationError
from dbt.tests.util import get_connection, run_dbt, write_file

from tests.adapter.test_arctic import messages, rows, table
from tests.unit.project.test_docs import blocks

EXAMPLES = [block.text for block in blocks("sql") if block.page == "docs/history.md"]
BY_EVENTS, BY_QUERY, CONTRACTS, KNOWN, AS_OF, JOINED, CURRENT, WITH_VIEW = EXAMPLES
VIEW = "{{ config(materialized='view') }}\n"
SOURCES = """
sources:
  - name: crm
    schema: "{{ target.schema }}"
    tables: [{name: customer_changes}, {name: contract_changes}, {name: orders}]
"""
ORDERS = """
{{ config(materialized='arctic', primary_key='order_id') }}
select order_id, customer_id, segment, amount, ordered_at from {{ source('crm', 'orders') }}
"""


def day(number: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, number)


@pytest.mark.slow
class TestHistory:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "ods_orders.sql": ORDERS,
            "dim_customers.sql": BY_EVENTS,
            "customers.sql": WITH_VIEW,
            "orders_by_segment.sql": BY_QUERY,
            "contracts.sql": CONTRACTS,
            "known.sql": VIEW + KNOWN,
            "as_of.sql": VIEW + AS_OF,
            "joined.sql": "{{ config(materialized='arctic', primary_key='order_id') }}\n" + JOINED,
            "customers_now.sql": VIEW + CURRENT,
        }

    @pytest.fixture(scope="class", autouse=True)
    def landed(self, project: Any) -> None:
        changes, orders = table(project, "customer_changes"), table(project, "orders")
        project.run_sql(
            f"create table {changes} (customer_id int, segment string, city string, op string, changed_at timestamp) "
            "tblproperties ('format-version' = '3')"
        )
        project.run_sql(
            f"create table {orders} (order_id int, customer_id int, segment string, amount int, ordered_at timestamp)"
        )
        contracts = table(project, "contract_changes")
        project.run_sql(
            f"create table {contracts} (contract_id int, rate int, effective_from timestamp, entered_at timestamp, "
            "is_cancelled boolean) tblproperties ('format-version' = '3')"
        )
        project.run_sql(
            f"insert into {contracts} values (1, 5, timestamp '2026-01-01', timestamp '2026-01-01', false), "
            "(1, 6, timestamp '2026-01-01', timestamp '2026-02-10', false)"
        )
        project.run_sql(f"insert into {changes} values (1, 'a', 'x', 'c', timestamp '2026-01-01 00:00:00')")
        project.run_sql(f"insert into {orders} values (7, 1, 's', 10, timestamp '2026-01-20 00:00:00')")

    def test_the_examples_keep_and_read_versions(self, project: Any) -> None:
        assert messages(run_dbt(["run"]))["dim_customers"] == "create +1 ~0 -0"
        changes = table(project, "customer_changes")
        late = "(1, 'b', 'x', 'u', timestamp '2026-01-15 00:00:00')"
        news = "(1, 'c', 'x', 'u', timestamp '2026-02-01 00:00:00')"
        project.run_sql(f"insert into {changes} values {news}")
        project.run_sql(f"insert into {changes} values {late}, (1, 'c', 'x', 'd', timestamp '2026-03-01 00:00:00')")
        project.run_sql(f"insert into {changes} values (2, 'n', 'y', 'c', timestamp '2026-03-01 00:00:00')")
        done = messages(run_dbt(["run"]))
        assert done["dim_customers"] == "incremental +3 ~1 -0"
        assert done["joined"].startswith("incremental +0 ~1 -0")
        versions = "select customer_id, segment, _valid_from, _valid_to, _is_current from " + table(
            project, "dim_customers"
        )
        assert rows(project, versions + " where customer_id = 1") == [
            (1, "a", day(1), day(15), False),
            (1, "b", day(15), datetime.datetime(2026, 2, 1), False),
            (1, "c", datetime.datetime(2026, 2, 1), datetime.datetime(2026, 3, 1), False),
        ]
        assert rows(project, f"select * from {table(project, 'as_of')}") == [(1, "b")]
        assert rows(project, f"select * from {table(project, 'joined')}") == [(7, 10, "b")]
        # What a run recorded in the year of this test is after both times that the example asks for.
        assert rows(project, f"select * from {table(project, 'known')}") == [(1, 6)]
        for current in ("customers_now", "customers_current"):
            assert rows(project, f"select customer_id, segment from {table(project, current)}") == [(2, "n")]
        project.run_sql(
            f"insert into {table(project, 'orders')} values (8, 1, 's', 10, timestamp '2026-01-20 00:00:00')"
        )
        assert messages(run_dbt(["run", "--select", "ods_orders", "orders_by_segment"]))[
            "orders_by_segment"
        ].startswith("incremental +0 ~1 -0")
        assert set(messages(run_dbt(["run", "--exclude", "as_of", "known", "customers_now", "joined"])).values()) == {
            "unchanged"
        }


PLAIN = "{{ config(materialized='table') }}\nselect 1 as customer_id"
BOTH = WITH_VIEW.replace("current_view=true", "current_view=true, changes_view=true")
NAMED = BOTH.replace("current_view=true", "current_view='customers'")


@pytest.mark.slow
class TestCurrentView:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"sources.yml": SOURCES, "dim_customers.sql": BOTH}

    def test_dbt_knows_views_of_current_rows_and_changes_as_parts_of_their_model(self, project: Any) -> None:
        changes = table(project, "customer_changes")
        project.run_sql(
            f"create table {changes} (customer_id int, segment string, city string, op string, changed_at timestamp) "
            "tblproperties ('format-version' = '3')"
        )
        project.run_sql(f"insert into {changes} values (1, 'a', 'x', 'c', timestamp '2026-01-01 00:00:00')")
        run_dbt(["run"])
        assert self.relations(project) == {
            "dim_customers": "table",
            "dim_customers_cdf": "view",
            "dim_customers_current": "view",
        }
        catalog = run_dbt(["docs", "generate"])
        described = {(node.metadata.name, node.metadata.type) for node in catalog.nodes.values()}
        assert ("dim_customers", "arctic table") in described
        run_dbt(["run", "--full-refresh"])
        assert rows(project, f"select segment from {table(project, 'dim_customers_current')}") == [("a",)]
        write_file(NAMED, project.project_root, "models", "dim_customers.sql")
        assert messages(run_dbt(["run"])) == {"dim_customers": "unchanged"}
        assert self.relations(project) == {"dim_customers": "table", "dim_customers_cdf": "view", "customers": "view"}
        write_file(PLAIN, project.project_root, "models", "customers.sql")
        with pytest.raises(CompilationError, match=r"have the name .*\.customers,(.|\n)* of .*dim_customers"):
            run_dbt(["run"])
        write_file(PLAIN, project.project_root, "models", "dim_customers.sql")
        run_dbt(["run", "--select", "dim_customers"])
        assert self.relations(project) == {"dim_customers": "table"}

    @staticmethod
    def relations(project: Any) -> dict[str, str]:
        """What readers see in the schema, without change tables and sources."""
        with get_connection(project.adapter):
            schema = project.adapter.Relation.create(database="lake", schema=project.test_schema)
            caching = project.adapter.list_relations_without_caching(schema)
        return {
            relation.identifier: str(relation.type)
            for relation in caching
            if not relation.identifier.endswith("_changes")
        }
