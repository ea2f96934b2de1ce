"""Texts for errors of databases, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.ingest.transports.debezium.connection import SNAPSHOT_SELECTS, DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.source_database import (
    SourceDatabase,
    build_snapshot_queries,
    describe_denied_login,
)
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> SourceDatabase:
    monkeypatch.setattr("arctic_runtime.ingest.transports.debezium.servers.source_database.start_jvm", lambda _: None)
    return SourceDatabase(DebeziumConnection("postgresql", "db", 5432, "shop", "reader", "", (), "arctic"), 1)


def sql_error(state: str) -> Any:
    return SimpleNamespace(getSQLState=lambda: state, getErrorCode=lambda: 0, getMessage=lambda: "its words")


@pytest.mark.parametrize("state", ["08001", "08003", "08006", "08S01", "57P01", "57P02", "57P03", "53300"])
def test_a_server_that_may_come_back_is_described_in_words(database: SourceDatabase, state: str) -> None:
    error = database.to_source_error(sql_error(state))
    assert isinstance(error, ConnectionLost)
    assert state not in str(error)
    assert error.actual == "its words"


def test_an_unknown_state_is_named(database: SourceDatabase) -> None:
    error = database.to_source_error(sql_error("XX001"))
    assert not isinstance(error, ConnectionLost)
    assert "the database answered with error XX001" in str(error)


@pytest.mark.parametrize("state", ["55P03", "57014"])
def test_a_statement_that_waits_for_others_is_no_lost_connection(database: SourceDatabase, state: str) -> None:
    error = database.to_source_error(sql_error(state))
    assert not isinstance(error, ConnectionLost)
    assert "pg_stat_activity" in str(error.fix)


def test_a_late_start_tells_of_the_transactions_for_which_a_slot_waits(database: SourceDatabase) -> None:
    error = database.to_source_error(InterruptedError("Time out while waiting for source task to start."))
    assert "a new replication slot waits for all running transactions" in str(error)
    assert "pg_stat_activity" in str(error.fix)


def test_a_refused_login_names_the_anonymous_account_that_may_have_taken_it(database: SourceDatabase) -> None:
    words = "Access denied for user 'arctic'@'localhost' (using password: YES)"
    error = database.to_source_error(
        SimpleNamespace(getSQLState=lambda: "28000", getErrorCode=lambda: 1045, getMessage=lambda: words)
    )
    assert error.actual == words
    assert "`drop user ''@'localhost'`" in str(error.fix)
    assert "'arctic'@'localhost'" in str(error.fix)


def test_a_refused_login_without_an_account_has_no_advice() -> None:
    assert describe_denied_login("Access denied") is None


CONNECTION = DebeziumConnection("mariadb", "127.0.0.1", 3306, "s", "root", "", (r"s\.t", r"s\.u"))
ROWS = (
    ("s.t", "id", "`s`.`t`", "t.`id`", None),
    ("s.t", "ratio", "`s`.`t`", "t.`ratio`", "t.`ratio` * 1e0 as `ratio`"),
    ("s.u", "id", "`s`.`u`", "t.`id`", None),
    ("s.other", "ratio", "`s`.`other`", "t.`ratio`", "t.`ratio` * 1e0 as `ratio`"),
)


def test_only_tables_that_are_read_and_have_an_expression_get_a_query() -> None:
    assert build_snapshot_queries(ROWS, CONNECTION) == {
        SNAPSHOT_SELECTS: "`s`.`t`",
        f"{SNAPSHOT_SELECTS}.`s`.`t`": "select t.*, t.`ratio` * 1e0 as `ratio` from `s`.`t` t",
    }


def test_columns_are_named_where_others_are_excluded() -> None:
    rows = (*ROWS, ("s.t", "secret", "`s`.`t`", "t.`secret`", None))
    excluding = DebeziumConnection(**{**vars(CONNECTION), "properties": {"column.exclude.list": r"s\.t\.secret"}})
    queries = build_snapshot_queries(rows, excluding)
    assert queries[f"{SNAPSHOT_SELECTS}.`s`.`t`"] == "select t.`id`, t.`ratio` * 1e0 as `ratio` from `s`.`t` t"
    without = DebeziumConnection(**{**vars(CONNECTION), "properties": {"column.exclude.list": r"s\.t\.ratio"}})
    assert build_snapshot_queries(ROWS, without) == {}
