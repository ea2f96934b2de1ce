"""Object stores: how both readers of a warehouse reach the same files in the same way."""

from __future__ import annotations

from pathlib import Path

import pytest

from arctic_runtime.catalog_kinds.object_stores import (
    AZURE,
    GCS,
    S3,
    ObjectStore,
    build_python_store_properties,
    complete_store_properties,
    describe_store,
    find_store,
)

NO_FILE = {"AWS_CONFIG_FILE": "/nowhere/config"}


@pytest.mark.parametrize(
    ("properties", "store"),
    [
        ({"warehouse": "s3://b/wh"}, S3),
        ({"warehouse": "S3A://b/wh"}, S3),
        ({"warehouse": "gs://b"}, GCS),
        ({"warehouse": "abfss://c@a.dfs.core.windows.net/x"}, AZURE),
        ({"type": "glue"}, S3),
        ({"type": "rest", "warehouse": "name", "adls.sas-token": "t"}, AZURE),
        ({"type": "rest", "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO"}, GCS),
        ({"type": "rest", "warehouse": "name"}, None),
        ({"warehouse": "/wh", "s3.region": "eu-west-1"}, None),
        ({"warehouse": "hdfs://name/wh", "s3.region": "eu-west-1"}, None),
    ],
)
def test_the_store_of_a_catalog_is_told_by_its_warehouse_or_its_own_keys(
    properties: dict[str, str], store: ObjectStore | None
) -> None:
    assert find_store(properties) is store


@pytest.mark.parametrize(
    ("kind", "chosen"), [("jdbc", True), ("hive", True), ("nessie", True), ("rest", False), ("glue", False)]
)
def test_java_gets_the_class_of_the_store_where_the_catalog_chooses_none(kind: str, chosen: bool) -> None:
    completed = complete_store_properties({"type": kind, "warehouse": "s3://b/wh"}, {})
    assert (completed.get("io-impl") == S3.java_file_io) is chosen


def test_region_and_endpoint_of_the_environment_go_to_both_readers() -> None:
    environment = {**NO_FILE, "AWS_DEFAULT_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://s3:9000"}
    completed = complete_store_properties({"type": "rest", "warehouse": "s3://b/wh"}, environment)
    assert completed["client.region"] == "eu-west-1"
    assert completed["s3.endpoint"] == "http://s3:9000"
    assert completed["s3.path-style-access"] == "true"


def test_a_server_of_ones_own_needs_no_region_and_keeps_one_from_a_profile_file(tmp_path: Path) -> None:
    given = {"type": "rest", "warehouse": "s3://b/wh", "s3.endpoint": "http://s3:9000"}
    assert complete_store_properties(given, NO_FILE)["client.region"] == "us-east-1"
    file = tmp_path / "config"
    file.write_text("[default]\nregion = eu-west-1\n")
    assert "client.region" not in complete_store_properties(given, {"AWS_CONFIG_FILE": str(file)})


def test_what_is_given_wins() -> None:
    given = {
        "type": "jdbc",
        "warehouse": "s3://b/wh",
        "io-impl": "org.example.IO",
        "s3.endpoint": "http://mine",
        "s3.path-style-access": "false",
        "client.region": "eu-north-1",
    }
    environment = {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL_S3": "http://other"}
    assert complete_store_properties(given, environment) == given


def test_catalogs_in_no_store_get_nothing() -> None:
    given = {"type": "jdbc", "warehouse": "/wh"}
    assert complete_store_properties(given, {"AWS_REGION": "eu-west-1"}) == given
    assert build_python_store_properties(given, 2, 20) == {}


def test_pyiceberg_addresses_buckets_as_java_does() -> None:
    by_host = {"warehouse": "s3://b/wh", "s3.endpoint": "http://s3", "s3.path-style-access": "false"}
    assert build_python_store_properties(by_host, 2, 20)["s3.force-virtual-addressing"] == "true"
    by_path = {**by_host, "s3.path-style-access": "true"}
    assert "s3.force-virtual-addressing" not in build_python_store_properties(by_path, 2, 20)


def test_requests_that_a_catalog_signs_are_made_by_fsspec() -> None:
    signed = {"warehouse": "s3://b/wh", "s3.remote-signing-enabled": "true"}
    assert build_python_store_properties(signed, 2, 20)["py-io-impl"].endswith("FsspecFileIO")


def test_a_store_is_described_by_bucket_and_endpoint() -> None:
    assert describe_store({"warehouse": "s3://b/wh", "s3.endpoint": "http://s3"}) == "s3://b/wh at http://s3"
    assert describe_store({"warehouse": "name", "s3.endpoint": "http://s3"}) == "S3 at http://s3"
    assert describe_store({"warehouse": "gs://b"}) == "gs://b"
