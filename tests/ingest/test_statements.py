"""Debezium reads the statements by which MariaDB defines tables, and stops at none about a table that is left out."""

from __future__ import annotations

from typing import Any

import jpype
import pytest

from arctic_runtime.ingest.transports.debezium.java_methods import insert_code
from arctic_runtime.ingest.transports.debezium.jvm import load_java_class, start_jvm
from arctic_runtime.ingest.transports.debezium.servers.mysql import MYSQL_CODE
from arctic_runtime.thresholds import SHIPPED

DEFAULTS = (
    "concat('a','b')", "uuid()", "(1 + 2)", "json_object()", "current_user()", "current_user", "curdate()", "a", "`a`",
    "concat('it''s)', \"a)b\", upper('c('))", "concat /* ) */ ('a')", "next value for s.q", "nextval(`s`.`q`)",
    "case when 1 then 'x' else case 2 when 2 then ')' end end", "(next value for q)", "@@version", "@x",
    "{d '2024-01-01'}", "(current_role())", "convert(1, char)", "cast(1 as char)", "(json_value('{\"a\": 1}', '$.a'))",
    "sys.f(1)", "default(a)", "unix_timestamp()", "now(3)", "5", "-5", "1.5e3", "x'41'", "b'101'", "_utf8mb4'x'",
    "_latin1 x'E9'", "_latin1 0xE9",
    "date '2024-01-01'", "'it''s'", "null", "true", "current_timestamp",
)  # fmt: skip
FIRST = "create table t (id int, a varchar(9), c int)"
STATEMENTS = {
    "create or replace table t (id int primary key, a varchar(9) default {}, b varchar(9) default {} not null comment "
    "'default f(', c int) default charset=utf8mb4 comment 'default x'": ["id", "a", "b", "c"],
    "alter table t add x varchar(9) default {} not null, add y int default {} after a, alter c set default {}, "
    "add z datetime default {} on update now(3)": ["id", "a", "y", "c", "x", "z"],
}
"""Statements with places for a default, and the columns that `t` then has."""


@pytest.fixture(scope="module")
def debezium() -> Any:
    start_jvm(SHIPPED.debezium.heap_bytes)
    insert_code(MYSQL_CODE)
    return load_java_class


def parse(debezium: Any, parser: Any, *statements: str) -> list[str]:
    """Returns the columns of the table `t` after statements of the database `s`."""
    tables = debezium("io.debezium.relational.Tables")()
    parser.setCurrentSchema("s")
    for statement in statements:
        parser.parse(statement, tables)
    (known,) = [tables.forTable(table) for table in tables.tableIds()]
    return [str(column.name()) for column in known.columns()]


@pytest.mark.parametrize("default", DEFAULTS)
def test_a_default_of_any_kind_is_read(debezium: Any, default: str) -> None:
    for statement, columns in STATEMENTS.items():
        parser = debezium("io.debezium.connector.mysql.antlr.MySqlAntlrDdlParser")()
        assert parse(debezium, parser, FIRST, statement.replace("{}", default)) == columns


def test_a_statement_that_is_not_understood_stops_only_the_reader_of_its_table(debezium: Any) -> None:
    filters = "io.debezium.relational.Tables$TableFilter"
    only = jpype.JProxy(filters, dict={"isIncluded": lambda table: str(table.table()) == "t"})
    parser = debezium("io.debezium.connector.mysql.antlr.MySqlAntlrDdlParser")(only)
    others = ("alter table other add u inet6", "/* a */ alter table `x`.`o t` add u inet6", "create table o (u inet6)")
    assert parse(debezium, parser, "create table t (id int)", *others, "alter table t add n int") == ["id", "n"]
    for statement in ("alter table t add u inet6", "alter table `s` . `t` add u inet6", "create table t (u inet6)"):
        with pytest.raises(jpype.JException, match=r"The definition of s\.t can't be parsed"):
            parse(debezium, parser, "create table t (id int)", statement)
