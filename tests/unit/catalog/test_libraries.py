"""Libraries of catalogs and stores: a missing one is named with the command that installs it."""

from __future__ import annotations

from importlib import util

import pytest

from arctic_runtime.catalog import catalog_calls
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile

FSSPEC = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}


@pytest.mark.parametrize(
    ("properties", "library", "extra"),
    [
        ({"type": "glue", "warehouse": "s3://b/wh"}, "boto3", "glue"),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://db/cat", "warehouse": "/wh", "jdbc.user": "me"},
            "psycopg2",
            "postgresql",
        ),
        ({"type": "hive", "uri": "thrift://metastore:9083"}, "thrift", "hive"),
        ({"type": "rest", "uri": "http://c", "warehouse": "s3://b/wh", **FSSPEC}, "s3fs", "s3"),
        ({"type": "rest", "uri": "http://c", "warehouse": "gs://b/wh", **FSSPEC}, "gcsfs", "gcs"),
        ({"type": "rest", "uri": "http://c", "warehouse": "abfss://b@c/wh", **FSSPEC}, "adlfs", "azure"),
    ],
)
def test_a_missing_library_is_one_sentence_with_the_command(
    properties: dict[str, str], library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_calls, "find_spec", lambda name: None if name == library else util.find_spec(name))
    with pytest.raises(ConfigError) as refused:
        CatalogReader(Profile(catalog_properties=properties)).list_namespaces()
    assert library in str(refused.value)
    assert str(refused.value).endswith(f"pip install 'dbt-arctic[{extra}]'")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "properties",
    [{"type": "rest", "uri": "http://c", "warehouse": "s3://b/wh"}, {"type": "hadoop", "warehouse": "/wh"}],
)
def test_arrow_alone_reads_files_of_stores(properties: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_calls, "find_spec", lambda name: None)
    catalog_calls.check_libraries(Profile(catalog_properties=properties))
