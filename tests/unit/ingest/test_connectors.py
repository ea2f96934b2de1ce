"""Settings of connectors are checked before anything is read, and choose what Spark needs."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.connectors import CONNECTORS, connect, with_jars
from arctic_runtime.ingest.database_kinds import DATABASE_KINDS
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.debezium import servers
from arctic_runtime.ingest.transports.debezium.servers.source_server import create_log_order
from arctic_runtime.ingest.transports.kafka.transport import Kafka
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import JARS_SETTING, Profile

PROFILE = Profile.for_embedded("/nowhere")


def source(connector: str, settings: Mapping[str, Any]) -> IngestSource:
    tables = tuple(
        IngestedTable(name, f"public.{name}", TableName("lake", "ods", name), {}) for name in ("orders", "items")
    )
    return IngestSource("shop", connector, settings, tables, TableName("lake", "ods", "shop__dead_letters"))


def connected(connector: str, **settings: Any) -> Any:
    def no_spark() -> Any:
        raise AssertionError("Spark was asked")

    return connect(source(connector, settings), CatalogReader(PROFILE), no_spark).transport


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({}, "`servers` is missing"),
        ({"servers": "a:1", "topic": "t"}, "unknown key `topic` .did you mean 'topics'"),
        ({"servers": "a:1", "mechanism": "PLAINS"}, "mechanism"),
        ({"servers": "a:1", "tls": "yes"}, "`tls` must be true or false"),
        ({"servers": "a:1", "on_data_loss": "ignore"}, "on_data_loss"),
        ({"servers": "a:1", "user": "me"}, "`user` and `password` together"),
        ({"servers": "a:1", "user": "me", "password_env": "NOT_SET_HERE"}, "NOT_SET_HERE"),
        ({"servers": "a:1", "format": "rows", "topics": {"orders": "t", "items": "t"}}, "share the topic t"),
        ({"servers": "a:1", "format": "avro"}, "Unknown format: avro"),
        ({"servers": "a:1", "format": {"rows": ["op"]}}, "`format` must be one of"),
        ({"servers": "a:1", "schema_registry": "registry:8081"}, "must be one URL"),
        ({"servers": "a:1", "schema_registry": {"user": "me"}}, "no `url`(?s:.*)user, password, password_env"),
        ({"servers": "a:1", "schema_registry": 8081}, "`url` must be a non-empty string; found 8081"),
        ({"servers": "a:1", "schema_registry": {"url": "http://r:1", "usr": "me"}}, "`usr` .did you mean 'user'"),
        ({"servers": "a:1", "schema_registry": {"url": "http://r:1", "password_env": "NOT_SET_HERE"}}, "NOT_SET_HERE"),
        ({"servers": "a:1", "schema_registry": "http://r:1", "format": "canal"}, "canal are JSON"),
    ],
)
def test_settings_of_kafka_that_can_not_be_used_are_named(settings: Mapping[str, Any], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        connected("kafka", **settings)


def test_kafka_needs_no_server_to_be_configured() -> None:
    assert isinstance(connected("kafka", servers="a:1", topic_prefix="shop", format="canal"), Kafka)


def test_a_schema_registry_needs_no_server_to_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "hidden")
    registry = {"url": "http://r:1", "user": "me", "password_env": "REGISTRY_PASSWORD"}
    assert isinstance(connected("kafka", servers="a:1", schema_registry=registry), Kafka)


@pytest.mark.parametrize("name", ["sqlserver", "oracle", "mongodb", "SQLServer"])
def test_databases_that_are_not_tested_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"no connector '{name}'(?s:.*)Kafka, and read them there"):
        connected(name, host="db", database="shop", user="me")


@pytest.mark.parametrize("connector", ["postgresql", "mysql", "mariadb"])
def test_the_engine_reads_no_other_database_by_a_property(connector: str) -> None:
    other = {"connector.class": "io.debezium.connector.sqlserver.SqlServerConnector"}
    with pytest.raises(ConfigError, match=r"`connector\.class`(?s:.*)SqlServerConnector"):
        connected(connector, host="db", database="shop", user="me", properties=other)


def test_spark_gets_the_jars_of_the_connectors() -> None:
    assert JARS_SETTING not in with_jars(PROFILE, [source("files", {})]).settings
    chosen = with_jars(PROFILE, [source("files", {}), source("kafka", {}), source("kafka", {})])
    assert chosen.settings[JARS_SETTING] == "kafka"
    chosen = with_jars(PROFILE, [source("kafka", {"schema_registry": "http://r:1"}), source("kafka", {})])
    assert chosen.settings[JARS_SETTING] == "kafka,avro"
    assert {connector.name for connector in CONNECTORS if connector.list_jars(source(connector.name, {}))} == {"kafka"}


@pytest.mark.parametrize("name", DATABASE_KINDS)
def test_an_entry_of_a_database_names_classes_that_exist(name: str) -> None:
    server = pkgutil.resolve_name(f"{servers.__name__}.{DATABASE_KINDS[name].server}")
    assert callable(server.check_server)
    order = create_log_order(name)
    assert callable(order.is_after)
    assert type(server.order) is type(order)
