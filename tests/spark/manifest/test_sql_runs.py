"""Models of a folder of SQL files: created, followed by changes, edited, and seen by operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from dbt.adapters.arctic import cli

if TYPE_CHECKING:
    from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.in_turn

FILES = {
    "dwd/dwd_orders.sql": """-- arctic:
--   primary_key: order_id
--   merge: on_read
with named as (select customer_id, name from ods.customers)
select o.order_id, n.name, o.amount from ods.orders as o left join named as n using (customer_id)
""",
    "dwd/dwd_events.sql": """-- arctic: {primary_key: order_id, input: changes, sequence_by: lsn}
select order_id, amount, lsn from changes(ods.events)
""",
    "dws/dws_totals.sql": """-- arctic: {primary_key: name}
select name, sum(amount) as amount from dwd.dwd_orders group by name
""",
}
ORDERS, EVENTS = "order_id bigint, customer_id bigint, amount bigint", "order_id bigint, amount bigint, lsn bigint"


@pytest.fixture
def folder(tmp_path: Path, lake: Warehouse) -> Path:
    """The folder of the files, with a profile that has all schemas in that of the test."""
    profile = lake.environment.profile
    target: dict[str, Any] = {"method": profile.method, "warehouse": profile.catalog_properties["warehouse"]}
    target |= {"server_side_parameters": dict(profile.settings)} | ({"url": profile.url} if profile.url else {})
    target["schemas"] = dict.fromkeys(("ods", "dwd", "dws"), lake.namespace)
    (tmp_path / "profile.yml").write_text(yaml.safe_dump(target))
    for name, text in FILES.items():
        file = tmp_path / "models" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    lake.load("orders", [(1, 1, 10), (2, 2, 20)], ORDERS)
    lake.load("customers", [(1, "ann"), (2, "bob")], "customer_id bigint, name string")
    lake.load("events", [(1, 5, 1)], EVENTS)
    return tmp_path


def perform_command(folder: Path, *line: str) -> int:
    return cli.main([*line, "--sql", str(folder / "models"), "--profile", str(folder / "profile.yml")])


def read_rows(lake: Warehouse, name: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, lake.spark.table(lake.sql_name(name)).collect()))


def test_files_are_created_followed_and_edited_and_operations_agree(folder: Path, lake: Warehouse) -> None:
    assert perform_command(folder, "run", "--once") == 0
    assert read_rows(lake, "dws_totals") == [("ann", 10), ("bob", 20)]
    assert read_rows(lake, "dwd_events") == [(1, 5, 1)]

    lake.append("orders", [(3, 1, 30)], ORDERS)
    lake.append("events", [(1, 7, 2)], EVENTS)
    assert perform_command(folder, "run", "--once") == 0
    assert read_rows(lake, "dws_totals") == [("ann", 40), ("bob", 20)]
    assert read_rows(lake, "dwd_events") == [(1, 7, 2)]

    file = folder / "models" / "dws" / "dws_totals.sql"
    file.write_text(file.read_text().replace("dwd.dwd_orders", "dwd.dwd_orders where amount > 10"))
    assert perform_command(folder, "run", "--once", "--select", "dws_totals") == 0
    assert read_rows(lake, "dws_totals") == [("ann", 30), ("bob", 20)]
    assert perform_command(folder, "verify") == 0
    results = json.loads((folder / "run_results.json").read_text())["results"]
    assert [(result["unique_id"], result["status"]) for result in results] == [("model.dws.dws_totals", "success")]
