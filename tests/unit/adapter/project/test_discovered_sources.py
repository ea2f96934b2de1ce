"""The YAML of a source with the tables of its database is what dbt reads, and shows no secret."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest
import yaml

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.source import DeclaredTable, read_source
from arctic_runtime.ingest.transports.transport import CatalogTable
from dbt.adapters.arctic.project.discovered_sources import build_source_at, write_source_yaml

CONNECTION = {"connector": "postgresql", "host": "db", "database": "shop", "user": "arctic"}
TABLES = [
    CatalogTable("public", "orders", ("id",)),
    CatalogTable("public", "Old: items", ("a", "b")),
    CatalogTable("public", "log"),
    CatalogTable("sales", "plans", ("id",)),
    CatalogTable("sales", "orders", ("id",)),
]


def read(lines: list[str]) -> dict[str, Any]:
    (source,) = yaml.safe_load("\n".join(lines))["sources"]
    values: dict[str, Any] = source
    return values


def test_all_tables_of_a_database_are_listed_by_names_that_lead_to_them() -> None:
    declared = [DeclaredTable("orders", "orders", "ods", "lake", {"sort_key": ["day"]}, ())]
    source = read_source("shop", {**CONNECTION, "port": 5433, "password_env": "SHOP"}, declared)
    lines = write_source_yaml(source, TABLES)
    document = read(lines)
    assert (document["name"], document["schema"]) == ("shop", "ods")
    assert document["config"]["meta"]["arctic"]["ingest"] == {**CONNECTION, "port": 5433, "password_env": "SHOP"}
    tables = [
        DeclaredTable(table["name"], table["name"], "ods", "lake", _arctic(table), ()) for table in document["tables"]
    ]
    again = read_source("shop", document["config"]["meta"]["arctic"]["ingest"], tables)
    names = {table.name: table.source_name for table in again.tables}
    assert names == {
        "orders": "public.orders",
        "sales_orders": "sales.orders",
        "plans": "sales.plans",
        "Old: items": "public.Old: items",
        "log": "public.log",
    }
    assert next(table for table in again.tables if table.name == "orders").settings == {"sort_key": ["day"]}
    assert "      - name: 'Old: items'  # primary key: a, b" in lines


def test_settings_that_a_user_has_chosen_are_kept() -> None:
    chosen = {"trigger": "5s", "dead_letters": "any", "schema_changes": "evolve", "include": ["sales.*"]}
    declared = [
        DeclaredTable("orders", "Orders", "ods", "lake", {"source_table": "orders", "schema_changes": "freeze"}, ()),
        DeclaredTable("log", "log", "ods", "lake", {"primary_key": None, "columns": {"_at": "at"}}, ()),
    ]
    source = read_source("shop", {**CONNECTION, **chosen, "table_schema": "sales"}, declared)
    tables = [CatalogTable("sales", "orders", ("id",)), CatalogTable("sales", "log")]
    document = read(write_source_yaml(source, tables))
    written = [
        DeclaredTable(table["name"], table.get("identifier", table["name"]), "ods", "lake", _arctic(table), ())
        for table in document["tables"]
    ]
    again = read_source("shop", document["config"]["meta"]["arctic"]["ingest"], written)
    assert replace(again, tables=()) == replace(source, tables=())
    assert sorted(again.tables, key=attrgetter("name")) == sorted(source.tables, key=attrgetter("name"))


def _arctic(table: dict[str, Any]) -> dict[str, Any]:
    arctic: dict[str, Any] = table.get("config", {}).get("meta", {}).get("arctic", {})
    return arctic


def test_a_table_without_a_primary_key_is_listed_with_what_that_means() -> None:
    source = build_source_at("postgresql://arctic@db/shop", None)
    lines = write_source_yaml(source, [CatalogTable("public", "log"), CatalogTable("public", "orders", ("id",))])
    assert [table["name"] for table in read(lines)["tables"]] == ["log", "orders"]
    assert "      - name: log  # no primary key: its events are appended" in lines
    chosen = [DeclaredTable("log", "log", "ods", "lake", {"primary_key": ["at"]}, ())]
    lines = write_source_yaml(read_source("shop", CONNECTION, chosen), [CatalogTable("public", "log")])
    assert lines[-2:] == ["      - name: log", "        config: {meta: {arctic: {primary_key: [at]}}}"]


def test_secrets_are_not_shown() -> None:
    properties = {"database.ssl.keystore.password": "hush-2", "snapshot.fetch.size": 5}
    ingest = {**CONNECTION, "password": "hush-1", "properties": properties}
    source = read_source("web shop", ingest, [DeclaredTable("a", "a", "ods", "lake", {}, ())])
    lines = write_source_yaml(source, TABLES)
    assert "hush" not in "\n".join(lines)
    settings = read(lines)["config"]["meta"]["arctic"]["ingest"]
    assert (settings["password_env"], settings["properties"]) == ("WEB_SHOP_PASSWORD", {"snapshot.fetch.size": "5"})


@pytest.mark.parametrize(
    ("url", "connection"),
    [
        ("postgres://me@db:5433/shop", {"host": "db", "port": 5433, "database": "shop", "user": "me"}),
        ("mariadb://a%40b@10.0.0.1/x", {"host": "10.0.0.1", "database": "x", "user": "a@b"}),
    ],
)
def test_an_address_is_a_source(url: str, connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PGPASSWORD", "MYSQL_PWD"):
        monkeypatch.delenv(variable, raising=False)
    assert build_source_at(url, None).connection == connection
    assert build_source_at(url, "MINE").connection == {**connection, "password_env": "MINE"}
    monkeypatch.setenv("PGPASSWORD", "x")
    expected = {"password_env": "PGPASSWORD"} if url.startswith("postgres") else {}
    assert build_source_at(url, None).connection == {**connection, **expected}


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://me:hush@db/shop", "can be seen by other users"),
        ("oracle://me@db/shop", "no address of a database"),
        ("mysql://db/shop", "user@host:port/database"),
        ("mysql://me@db", "user@host:port/database"),
    ],
)
def test_an_address_that_can_not_be_used_is_reported_without_its_password(url: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error) as raised:
        build_source_at(url, None)
    assert "hush" not in str(raised.value)


def test_a_source_of_mysql_has_its_database_as_schema() -> None:
    source = build_source_at("mysql://me@db/shop", None)
    document = read(write_source_yaml(source, [CatalogTable("shop", "a", ("id",))]))
    assert document["tables"] == [{"name": "a"}]
