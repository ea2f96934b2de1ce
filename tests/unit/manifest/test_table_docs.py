"""Descriptions of tables from a manifest, with the results of tests in the file beside it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

from arctic_runtime.manifest.manifest_file import read_manifest
from arctic_runtime.manifest.table_docs import describe_node, read_test_results
from arctic_runtime.service.project import LastDataTest
from tests.manifest_project import write_manifest

UNIQUE = "test.shop.unique_dws_customers_customer_id.08c77439b2"


def test_a_model_has_its_description_its_masks_and_the_last_results_of_its_tests(tmp_path: Path) -> None:
    manifest = read_manifest(write_manifest(tmp_path, "duckdb"))
    result = {"unique_id": UNIQUE, "status": "fail", "message": "Got 2 results"}
    result["timing"] = [{"completed_at": "2026-11-30T12:00:00Z"}]  # type: ignore[assignment]
    (tmp_path / "target" / "run_results.json").write_text(json.dumps({"results": [result]}))
    docs = describe_node(manifest, "model.shop.dws_customers")
    assert docs.description == "orders of each customer"
    assert "from {{ ref('orders_view') }}" in docs.sql
    assert (docs.columns, docs.masks) == ({"customer_id": "", "amount": ""}, {"amount": True})
    assert sorted(docs.tests, key=lambda test: test.name) == [
        LastDataTest("not_null_dws_customers_customer_id"),
        LastDataTest(
            "unique_dws_customers_customer_id",
            "fail",
            "Got 2 results",
            datetime(2026, 11, 30, 12, tzinfo=timezone.utc),
        ),
    ]


def test_a_file_of_results_that_can_not_be_read_counts_as_none(tmp_path: Path) -> None:
    file = tmp_path / "run_results.json"
    assert read_test_results(file) == {}
    for text in ("{", "[]", "{}", '{"results": [{}]}', '{"results": 3}'):
        file.write_text(text)
        assert read_test_results(file) == {}
