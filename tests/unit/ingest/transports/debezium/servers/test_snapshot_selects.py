"""Queries of snapshots take an expression only in place of columns that need one."""

from __future__ import annotations

from arctic_runtime.ingest.transports.debezium.connection import SNAPSHOT_SELECTS, DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.source_database import build_snapshot_queries

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
