"""Names of tables in OpenLineage."""

from __future__ import annotations

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.service.telemetry.lineage.observed import DatasetName, name_by_catalog, name_by_location

ORDERS = TableName("lake", "ods", "orders")


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("s3://bucket/warehouse/ods/orders", "s3://bucket", "warehouse/ods/orders"),
        ("s3a://bucket/warehouse/ods/orders/", "s3://bucket", "warehouse/ods/orders"),
        ("gs://bucket/orders", "gs://bucket", "orders"),
        ("abfss://data@account.dfs.core.windows.net/orders", "abfss://data@account.dfs.core.windows.net", "orders"),
        ("hdfs://name:8020/warehouse/orders", "hdfs://name:8020", "warehouse/orders"),
        ("file:///warehouse/ods/orders", "file", "/warehouse/ods/orders"),
        ("file:/warehouse/ods/orders", "file", "/warehouse/ods/orders"),
        ("/warehouse/ods/orders", "file", "/warehouse/ods/orders"),
    ],
)
def test_a_table_has_the_name_of_its_location(location: str, namespace: str, name: str) -> None:
    assert name_by_location(location) == DatasetName(namespace, name)


@pytest.mark.parametrize(
    ("properties", "namespace"),
    [
        ({"type": "rest", "uri": "https://user:secret@catalog:8181/api/"}, "https://catalog:8181/api"),
        (
            {"type": "nessie", "uri": "http://nessie:19120/api/v2", "warehouse": "s3://b/w"},
            "http://nessie:19120/api/v2",
        ),
        ({"type": "hive", "uri": "thrift://metastore:9083"}, "hive://metastore:9083"),
        ({"type": "jdbc", "uri": "jdbc:sqlite:/w/catalog.db", "warehouse": "/w"}, "file:/w"),
        ({"type": "hadoop", "warehouse": "s3a://bucket/w"}, "s3://bucket/w"),
        ({}, "lake"),
    ],
)
def test_a_table_has_a_second_name_in_its_catalog(properties: dict[str, str], namespace: str) -> None:
    assert name_by_catalog(ORDERS, properties) == DatasetName(namespace, "ods.orders")


@pytest.mark.parametrize("name", ["a?b", "a#b", "a;b", "a%20b", "[x", "a b", "a:b", "a@b"])
def test_a_location_is_a_path_and_no_address_with_a_query(name: str) -> None:
    assert name_by_location(f"s3a://b/wh/{name}") == DatasetName("s3://b", f"wh/{name}")
    assert name_by_location(f"/wh/{name}") == DatasetName("file", f"/wh/{name}")
    assert name_by_location(f"file:///wh/{name}") == DatasetName("file", f"/wh/{name}")
    assert name_by_location(f"file:/wh/{name}") == DatasetName("file", f"/wh/{name}")
