"""Sources of a dbt project: which of their tables rows may be deleted from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table import Retention
from dbt.adapters.arctic.project.sources import list_landing_tables, list_origins


def a_manifest(table: dict[str, Any], source: dict[str, Any] | None = None) -> Any:
    node = SimpleNamespace(
        unique_id="source.p.landing.orders",
        source_name="landing",
        name="orders",
        database="lake",
        schema="raw",
        identifier="orders_v2",
        source_meta={"arctic": source or {}},
        meta={"arctic": table},
    )
    return SimpleNamespace(sources={node.unique_id: node})


def test_a_table_with_a_retention_that_is_not_ingested_is_a_landing_table() -> None:
    (table,) = list_landing_tables(a_manifest({"retention": {"changes": "7d", "versions": "1d"}}))
    assert (str(table.table), table.is_landing) == ("lake.raw.orders_v2", True)
    assert table.config.retention == Retention(86_400, None, 7 * 86_400)
    assert list_landing_tables(a_manifest({})) == ()
    assert list_landing_tables(a_manifest({"retention": {"changes": "7d"}}, {"ingest": {"connector": "kafka"}})) == ()


@pytest.mark.parametrize(
    ("ingest", "table", "expected"),
    [
        ({"connector": "postgresql"}, {}, "public.orders_v2"),
        ({"connector": "postgresql", "table_schema": "crm"}, {}, "crm.orders_v2"),
        ({"connector": "mariadb", "database": "shop"}, {"source_table": "orders"}, "shop.orders"),
        ({"connector": "mysql"}, {"source_table": "shop.orders"}, "shop.orders"),
        ({"connector": "files"}, {}, "orders_v2"),
    ],
)
def test_an_ingested_table_is_known_by_its_name_in_the_source(
    ingest: dict[str, Any], table: dict[str, Any], expected: str
) -> None:
    manifest = a_manifest(table, {"ingest": ingest})
    for node in manifest.sources.values():
        node.columns = {}
    ((name, origin),) = list_origins(manifest.sources.values()).items()
    assert (str(name), origin.source_name) == ("lake.raw.orders_v2", expected)
    assert str(origin.dead_letters) == "lake.raw.landing__dead_letters"
    assert list_origins(a_manifest(table).sources.values()) == {}


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"retentoin": {}}, r"source table landing\.orders: unknown key `retentoin`.*retention"),
        ({"retention": "7d"}, "must be off or a mapping"),
    ],
)
def test_a_wrong_declaration_of_a_landing_table_is_an_error(meta: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list_landing_tables(a_manifest(meta))
