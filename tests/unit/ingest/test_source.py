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


@pytest.mark.parametrize("connector", [None, 3, [], {}])
def test_a_connector_that_is_no_name_is_an_error(connector: Any) -> None:
    declared = DeclaredTable("t", "t", "ods", "lake", {"primary_key": ["id"]}, ())
    with pytest.raises(ConfigError, match="`connector` is missing: postgresql, "):
        read_source("shop", {"connector": connector}, [declared])


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


def test_columns_are_renamed_by_their_names_in_the_source() -> None:
    declared = DeclaredTable("log", "log", "ods", "lake", {"columns": {"_ts": "ts_", "id": "id"}}, (("ts_", "bigint"),))
    (table,) = read_source("shop", {"connector": "kafka"}, [declared]).tables
    assert (table.renames, table.columns) == ({"_ts": "ts_"}, {"_ts": "bigint"})
    keyed = table_of("kafka", columns={"_ts": "ts_"}, primary_key=["id", "ts_"])
    assert keyed.key_in_source == ("id", "_ts")
    assert "columns" not in keyed.settings


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["_ts"], r"`columns` must map names"),
        ({"_ts": ""}, r"`columns` must map names"),
        ({"a": "x", "b": "X"}, r"x is the name of several columns\n.*X is the name of several columns"),
        ({"a": "_Before"}, r"_Before is a reserved name"),
        ({"at": "moment"}, r"at is declared with a type under its name in the source; declare it as moment"),
    ],
)
def test_names_of_columns_that_can_not_be_used_are_told_when_they_are_read(columns: Any, expected: str) -> None:
    declared = DeclaredTable("log", "log", "ods", "lake", {"columns": columns}, (("at", "bigint"),))
    with pytest.raises(ConfigError, match=rf"table log: {expected}" if "must" in expected else expected):
        read_source("shop", {"connector": "kafka"}, [declared])


def test_a_declared_column_with_a_reserved_name_is_refused_where_rows_have_a_key() -> None:
    def read_log(connector: str, **meta: Any) -> None:
        read_source("shop", {"connector": connector}, [DeclaredTable("log", "log", "ods", "lake", meta, COLUMNS)])

    with pytest.raises(ConfigError, match=r"column name _TS is reserved; declare .* as TS_, .*`columns: {_TS: TS_}`"):
        read_log("files", primary_key="id")
    read_log("files", primary_key=None)
    read_log("postgresql")


COLUMNS = (("id", "int"), ("_TS", "bigint"))


def test_secrets_of_a_source_are_those_of_its_settings_and_of_the_environment() -> None:
    connection = {
        "connector": "kafka",
        "password": "first-pass",
        "user": "me",
        "properties": {"ssl.keystore.password": "second-pass", "group.id": "g"},
        "schema_registry": {"url": "http://r", "password_env": "REGISTRY"},
        "token_env": "NOT_SET",
    }
    source = read_source("shop", connection, [DeclaredTable("a", "a", "ods", "lake", {"primary_key": ["id"]}, ())])
    assert source.list_secrets({"REGISTRY": "third-pass", "HOME": "/"}) == ["first-pass", "second-pass", "third-pass"]
