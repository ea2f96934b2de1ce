"""What a project says of a table: descriptions, masks, and tests as dbt last ran them."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from arctic_runtime.model.names import TableName
from arctic_runtime.service.project import TableDocs
from dbt.adapters.arctic.project.table_docs import describe_table

ORDERS, RAW = TableName("lake", "dwd", "orders"), TableName("lake", "raw", "events")


def make_column(description: str = "", **meta: Any) -> SimpleNamespace:
    return SimpleNamespace(description=description, meta=meta, config=None)


def make_manifest() -> Any:
    model = SimpleNamespace(
        resource_type="model",
        unique_id="model.shop.orders",
        database="lake",
        schema="dwd",
        alias="orders",
        description="All orders",
        raw_code="select 1 as id",
        columns={"ID": make_column("The key"), "email": make_column(mask=True), "note": make_column(mask="yes")},
    )
    source = SimpleNamespace(
        resource_type="source",
        unique_id="source.shop.raw.events",
        database="lake",
        schema="raw",
        identifier="events",
        description="",
        columns={},
    )
    tests = {
        f"test.shop.{name}": SimpleNamespace(
            resource_type="test", unique_id=f"test.shop.{name}", name=name, depends_on_nodes=[model.unique_id]
        )
        for name in ("unique_orders_id", "not_null_orders_id", "skipped")
    }
    return SimpleNamespace(nodes={model.unique_id: model, **tests}, sources={source.unique_id: source})


def test_a_table_is_described_with_its_masks_and_its_tests(tmp_path: Path) -> None:
    results = [
        {
            "unique_id": "test.shop.unique_orders_id",
            "status": "fail",
            "message": "Got 2 results",
            "timing": [{"name": "execute", "completed_at": "2026-01-01T12:00:00.5Z"}],
        },
        {"unique_id": "test.shop.skipped", "status": "skipped", "message": None, "timing": []},
    ]
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "run_results.json").write_text(json.dumps({"results": results}))
    docs = describe_table(make_manifest(), tmp_path, ORDERS)
    assert (docs.description, docs.sql) == ("All orders", "select 1 as id")
    assert docs.columns == {"id": "The key", "email": "", "note": ""}
    assert docs.masks == {"email": True, "note": True}
    assert {test.name: (test.status, test.message, test.at) for test in docs.tests} == {
        "unique_orders_id": ("fail", "Got 2 results", datetime(2026, 1, 1, 12, 0, 0, 500_000, timezone.utc)),
        "not_null_orders_id": ("unknown", "", None),
        "skipped": ("unknown", "", None),
    }


def test_a_source_is_described_and_an_unknown_table_is_not(tmp_path: Path) -> None:
    manifest = make_manifest()
    assert describe_table(manifest, tmp_path, RAW) == TableDocs()
    assert describe_table(manifest, tmp_path, TableName("lake", "dwd", "other")) == TableDocs()
