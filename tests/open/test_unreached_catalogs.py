"""Catalogs whose server is not there: a run says so in one sentence."""

from __future__ import annotations

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CatalogError
from arctic_runtime.profile import Profile
from tests.open.moto_server import KEY_ID, REGION, SECRET

GLUE = {"glue.region": REGION, "glue.access-key-id": KEY_ID, "glue.secret-access-key": SECRET}


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "hive", "uri": "thrift://127.0.0.1:9"},
        {"type": "glue", "glue.endpoint": "http://127.0.0.1:9", **GLUE},
        {"type": "jdbc", "uri": "jdbc:postgresql://127.0.0.1:9/lake", "warehouse": "/wh", "jdbc.user": "me"},
    ],
    ids=lambda properties: properties["type"],
)
def test_a_catalog_that_nobody_serves_is_named(properties: dict[str, str]) -> None:
    with pytest.raises(CatalogError, match=r"(?s)catalog lake .*: could not .*Is it up, and is its address right"):
        CatalogReader(Profile("lake", properties)).list_namespaces()
