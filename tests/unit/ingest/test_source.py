"""Sources as a project's YAML describes them: which tables have a primary key, and which one."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.source import DeclaredTable, IngestedTable, IngestSource, read_source
from arctic_runtime.model.names import TableName


def table_of(connector: str, **meta: Any) -> IngestedTable:
    declared = DeclaredTable("log", "log", "ods", "lake", meta, ())
    (table,) = read_source("shop", {"connector": connector}, [declared]).tables
    return table


@pytest.mark.parametrize(
    ("connector", "meta", "primary_key", "expected"),
    [
        ("postgresql", {}, ("id",), ("id",)),
        ("postgresql", {}, (), ()),
        ("mariadb", {}, (), ()),
        ("postgresql", {"primary_key": "at"}, (), ("at",)),
        ("postgresql", {"primary_key": None}, ("id",), ()),
        ("kafka", {}, ("id",), ("id",)),
        ("kafka", {"primary_key": ["a", "b"]}, (), ("a", "b")),
        ("files", {"primary_key": None}, (), ()),
        ("files", {"primary_key": []}, ("id",), ()),
    ],
)
def test_a_configured_key_counts_and_then_the_sources(
    connector: str, meta: dict[str, Any], primary_key: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    table = table_of(connector, **meta)
    assert table.choose_key(primary_key) == expected
    assert table.to_model(expected).is_appended == (not expected)


def test_a_source_that_tells_no_key_has_to_say_that_there_is_none() -> None:
    with pytest.raises(ConfigError, match="the primary key of log is not known"):
        table_of("files").choose_key(())


def test_a_table_without_a_key_is_one_table_however_merges_are_configured() -> None:
    model = table_of("postgresql", merge="on_read", partition_by=["days(at)"]).to_model(())
    assert model.base == model.table
    assert [str(transform) for transform in model.config.partition_by] == ["days(at)"]


def test_a_policy_of_schema_changes_that_is_unknown_is_named_with_all_other_errors() -> None:
    declared = DeclaredTable("log", "log", "ods", "lake", {"schema_changes": "saf", "nodez": 4}, ())
    with pytest.raises(ConfigError, match=r"(?s)evolv.*table log: `schema_changes: saf`.*did you mean.*nodez"):
        read_source("shop", {"connector": "kafka", "schema_changes": "evolv"}, [declared])
    assert table_of("kafka", schema_changes="evolve").schema_changes == "evolve"


def test_settings_are_described_without_their_secrets() -> None:
    connection = {
        "host": "db",
        "password": "s3cret",
        "password_env": "SHOP_PASSWORD",
        "port": 5432,
        "properties": {"column.exclude.list": "a.b", "database.ssl.keystore.password": "s3cret"},
    }
    source = IngestSource("shop", "postgresql", connection, (), TableName("lake", "ods", "dead"))
    described = source.describe_settings()
    assert "s3cret" not in str(described)
    assert described == {
        "connector": "postgresql",
        "host": "db",
        "password": "***",
        "password_env": "SHOP_PASSWORD",
        "port": 5432,
        "properties": {"column.exclude.list": "a.b", "database.ssl.keystore.password": "***"},
        "trigger": "1s",
        "dead_letters": 0,
        "schema_changes": "safe",
    }
