"""`arctic serve --manifest` as users start it, where dbt can't be imported: edits of the manifest, tests, HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from tests.adapter.served import Served
from tests.manifest_project import WITHOUT_DBT, write_manifest

pytestmark = pytest.mark.in_turn

TESTS = "tests of lake.dwd.dwd_orders"


class Shop:
    """The folder of a project that another adapter has compiled, and the tables that it reads."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.folder = folder
        self.manifest = write_manifest(folder, "duckdb")
        target = {"warehouse": "./warehouse", "threads": 2, "serve": {"schema": "ops"}}
        target |= {"server_side_parameters": settings, "keep_alive": 0}
        (folder / "profile.yml").write_text(yaml.safe_dump(target))
        self.edit_orders(test_after_refresh=True)
        self._catalog = CatalogReader(Profile.for_embedded(folder / "warehouse")).catalog
        self._catalog.create_namespace("ods")
        self.append("orders", order_id=[1, 2], customer_id=[1, 2], amount=[10, 20])
        self.append("customers", customer_id=[1, 2], name=["ann", "bob"])

    def append(self, table: str, **columns: list[Any]) -> None:
        rows = pa.table(columns)
        self._catalog.create_table_if_not_exists(("ods", table), rows.schema).append(rows)

    def edit_orders(self, where: str = "", **keys: Any) -> None:
        """Writes the manifest with another condition and further keys of the model `dwd_orders`, as a compilation."""
        document = json.loads(self.manifest.read_text())
        node = document["nodes"]["model.shop.dwd_orders"]
        node["config"]["meta"]["arctic"] |= keys
        node["compiled_code"], node["raw_code"] = node["compiled_code"] + where, node["raw_code"] + where
        self.manifest.write_text(json.dumps(document))


@pytest.fixture
def shop(tmp_path: Path, spark_settings: dict[str, str]) -> Shop:
    return Shop(tmp_path, spark_settings)


@pytest.fixture
def service(shop: Shop) -> Iterator[Served]:
    files = ("--manifest", str(shop.manifest), "--profile", str(shop.folder / "profile.yml"), "--select", "dwd_orders")
    served = Served(shop.folder, shop.folder, program=("-c", WITHOUT_DBT), where=files)
    yield served
    served.kill()


def test_models_of_a_manifest_stay_fresh_while_it_is_written_anew_and_tests_and_operations_answer(
    shop: Shop, service: Served
) -> None:
    service.until(lambda: service.rows("dwd_orders") == 2 and service.states()["dwd_orders"] == "fresh")
    shop.append("orders", order_id=[3], customer_id=[1], amount=[-1])
    service.until(lambda: service.rows("dwd_orders") == 3)
    service.until(lambda: "FAIL amounts: Got 1 results" in service.errors().get(TESTS, ""))

    shop.edit_orders(where="\nwhere o.amount > 0")
    service.until(lambda: service.rows("dwd_orders") == 2 and TESTS not in service.errors())
    (details,) = [service.get("tables/dwd_orders/details")]
    assert [(test["name"], test["status"]) for test in details["tests"]] == [("amounts", "pass")]
    assert "where o.amount > 0" in details["sql"]
    found = service.get("operations/lookup?table=dwd_orders&key=2")
    assert "bob" in json.dumps(found)
    service.stop()
