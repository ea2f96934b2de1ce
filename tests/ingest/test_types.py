"""Values of all types come the same in the snapshot and in the stream, with a column that keeps them exactly."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.debezium import DEBEZIUM
from arctic_runtime.ingest.formats.event_format import Encoding, SourceColumn
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from tests.ingest.reading import drain, drained, opened
from tests.ingest.servers import MariaDBServer, PostgreSQLServer


@dataclass(frozen=True)
class Case:
    """A type, a value of it in SQL, its column, and the value as JSON."""

    sql_type: str
    sql_value: str
    type: str
    encoding: Encoding
    value: Any
    element: Encoding = "plain"
    padded_to: int | None = None


P: Encoding = "plain"
ZONED: Encoding = "zoned_timestamp"
POSTGRESQL = (
    Case("smallint", "-32768", "int", P, -32768),
    Case("int", "2147483647", "int", P, 2147483647),
    Case("bigint", "-9223372036854775808", "bigint", P, -9223372036854775808),
    Case("numeric(12,3)", "-123456789.120", "decimal(12,3)", P, "-123456789.120"),
    Case("numeric(2,5)", "0.00012", "decimal(5,5)", P, "0.00012"),
    Case("numeric(50,2)", f"{'1234567890' * 4}.10", "string", "decimal_text", f"{'1234567890' * 4}.10"),
    Case("numeric", "0.00000000000000000000000000000000000000012", "string", "decimal_text", f"0.{'0' * 39}12"),
    Case("numeric(9,2)", "'NaN'", "decimal(9,2)", P, "NAN"),
    Case("money", "12.30", "decimal(19,2)", P, "12.30"),
    Case("real", "1.5e-10", "float", P, 1.5e-10),
    Case("double precision", "0.1", "double", P, 0.1),
    Case("double precision", "'NaN'", "double", P, "NaN"),
    Case("text", "e'ü☃\\n\\t\"x\"'", "string", P, 'ü☃\n\t"x"'),
    Case("varchar(9)", "''", "string", P, ""),
    Case("char(5)", "'ab'", "string", P, "ab   "),
    Case("bytea", "'\\x00ff10'", "binary", "base64", "AP8Q"),
    Case("boolean", "true", "boolean", P, True),
    Case("bit(1)", "b'1'", "boolean", P, True),
    Case("bit(12)", "b'000000000001'", "binary", "base64", "AQ==", padded_to=2),
    Case("date", "'2024-02-29'", "date", "epoch_days", 19782),
    Case("time", "'23:59:59.123456'", "string", "micros_of_day", 86399123456),
    Case("timetz", "'10:15:30.5+02'", "string", P, "08:15:30.5Z"),
    Case("timestamp", "'2024-02-29 12:34:56.789012'", "timestamp_ntz", "epoch_micros", 1709210096789012),
    Case("timestamp(3)", "'2024-02-29 12:34:56.789'", "timestamp_ntz", "epoch_millis", 1709210096789),
    Case(
        "timestamptz",
        "'2024-02-29 12:34:56.789012+05:30'",
        "timestamp",
        "zoned_timestamp",
        "2024-02-29T07:04:56.789012Z",
    ),
    Case("interval", "'1 year 2 mons -3 days 04:05:06.789'", "string", "interval", "P1Y2M-3DT4H5M6.789S"),
    Case("uuid", "'4c19ba8f-f267-4706-9fcd-e9aacd3d148a'", "string", P, "4c19ba8f-f267-4706-9fcd-e9aacd3d148a"),
    Case("json", "'{\"a\": [1, 2.50]}'", "string", P, '{"a": [1, 2.50]}'),
    Case("jsonb", "'{\"a\":  2.50}'", "string", P, '{"a": 2.50}'),
    Case("xml", "'<a>b</a>'", "string", P, "<a>b</a>"),
    Case("mood", "'happy'", "string", P, "happy"),
    Case("inet", "'10.0.0.1/8'", "string", P, "10.0.0.1/8"),
    Case("int4range", "'[1,5)'", "string", P, "[1,5)"),
    Case("tsvector", "'cat dog'", "string", P, "'cat' 'dog'"),
    Case("int[]", "'{1,null,3}'", "array<int>", "array", [1, None, 3]),
    Case("text[]", "'{a,\"b c\",null}'", "array<string>", "array", ["a", "b c", None]),
    Case("numeric[]", "'{1.50,null}'", "array<string>", "array", ["1.50", None], "decimal_text"),
    Case("numeric(10,2)[]", "'{1.50}'", "array<decimal(10,2)>", "array", ["1.50"]),
    Case("date[]", "'{2024-02-29}'", "array<date>", "array", [19782], "epoch_days"),
    Case(
        "timestamptz[]",
        "'{2024-02-29 12:00+01}'",
        "array<timestamp>",
        "array",
        ["2024-02-29T11:00:00.000000Z"],
        "zoned_timestamp",
    ),
    Case("bool[]", "'{t,f}'", "array<boolean>", "array", [True, False]),
    Case("bytea[]", "'{\"\\\\x00ff\"}'", "array<binary>", "array", ["AP8="], "base64"),
    Case("mood[]", "'{happy,null}'", "array<string>", "array", ["happy", None]),
    Case("tsvector[]", "array['cat'::tsvector, null]", "array<string>", "array", ["'cat'", None]),
    Case("uuid[]", "'{null}'", "array<string>", "array", [None]),
    Case("int4range[]", "array['[1,5)'::int4range, null]", "array<string>", "array", ["[1,5)", None]),
)
MARIADB = (
    Case("tinyint", "-128", "int", P, -128),
    Case("tinyint unsigned", "255", "int", P, 255),
    Case("smallint unsigned", "65535", "int", P, 65535),
    Case("mediumint unsigned", "16777215", "int", P, 16777215),
    Case("int unsigned", "4294967295", "bigint", P, 4294967295),
    Case("bigint", "-9223372036854775808", "bigint", P, -9223372036854775808),
    Case("bigint unsigned", "18446744073709551615", "decimal(20,0)", P, 18446744073709551615),
    Case("decimal(12,3)", "-123456789.120", "decimal(12,3)", P, "-123456789.120"),
    Case("decimal(12,3) unsigned", "1.5", "decimal(12,3)", P, "1.500"),
    Case("decimal(50,2)", f"{'1234567890' * 4}.10", "string", "decimal_text", f"{'1234567890' * 4}.10"),
    Case("float", "1.5", "float", P, 1.5),
    Case("double", "0.1", "double", P, 0.1),
    Case("bool", "true", "int", P, 1),
    Case("bit(1)", "b'1'", "boolean", P, True),
    Case("bit(12)", "b'000000000001'", "binary", "base64", "AQA=", padded_to=2),
    Case("char(5)", "'ab'", "string", P, "ab"),
    Case("varchar(20)", "'ü☃😀'", "string", P, "ü☃😀"),
    Case("varchar(9) character set latin1", "'ü'", "string", P, "ü"),
    Case("longtext", "'a\\nb'", "string", P, "a\nb"),
    Case("binary(4)", "x'00ff'", "binary", "base64", "AP8AAA=="),
    Case("varbinary(9)", "x'00ff10'", "binary", "base64", "AP8Q"),
    Case("blob", "x'00ff10'", "binary", "base64", "AP8Q"),
    Case("date", "'2024-02-29'", "date", "epoch_days", 19782),
    Case("date", "'0099-01-01'", "date", "epoch_days", -683368),
    Case("time", "'23:59:59'", "string", "micros_of_day", 86399000000),
    Case("time(6)", "'-838:59:59'", "string", "micros_of_day", -3020399000000),
    Case("datetime", "'2024-02-29 12:34:56'", "timestamp_ntz", "epoch_millis", 1709210096000),
    Case("datetime(6)", "'9999-12-31 23:59:59.999999'", "timestamp_ntz", "epoch_micros", 253402300799999999),
    Case("timestamp null", "'2024-02-29 12:34:56'", "timestamp", ZONED, "2024-02-29T07:04:56Z"),
    Case("timestamp(6) null", "'2024-02-29 12:34:56.789012'", "timestamp", ZONED, "2024-02-29T07:04:56.789012Z"),
    Case("year", "2024", "int", P, 2024),
    Case("enum('sad', 'happy')", "'happy'", "string", P, "happy"),
    Case("set('a', 'b', 'c')", "'a,c'", "string", P, "a,c"),
    Case("json", "'{\"a\": [1, 2.50]}'", "string", P, '{"a": [1, 2.50]}'),
)  # fmt: skip


def definitions(cases: tuple[Case, ...]) -> str:
    return ", ".join(f"c{i} {case.sql_type}" for i, case in enumerate(cases))


def values(cases: tuple[Case, ...]) -> str:
    return ", ".join(case.sql_value for case in cases)


def expected(cases: tuple[Case, ...]) -> list[SourceColumn]:
    return [
        SourceColumn(f"c{i}", case.type, case.encoding, padded_to=case.padded_to, element=case.element)
        for i, case in enumerate(cases)
    ]


def check(connection: DebeziumConnection, cases: tuple[Case, ...], server: PostgreSQLServer | MariaDBServer) -> None:
    """Reads the row that is there, then a second one, and one of nulls."""
    table = connection.tables[0].replace("\\", "")
    with opened(connection) as transport:
        snapshot = drained(transport)
        server.sql(f"insert into {table} values (2, {values(cases)})", f"insert into {table} (id) values (3)")
        stream = drained(transport)
    ((_, schema),) = snapshot.schemas
    assert schema is not None
    read = [replace(column, number=None, older_rows=None) for column in schema.columns[1:]]
    assert read == expected(cases)
    assert [column.number for column in schema.columns] == list(range(1, len(cases) + 2))
    rows = [row for _, row in (*snapshot.changes, *stream.changes)]
    wanted = {f"c{i}": case.value for i, case in enumerate(cases)}
    assert rows == [{"id": 1, **wanted}, {"id": 2, **wanted}, {"id": 3, **dict.fromkeys(wanted)}]


def test_types_of_postgresql(postgresql: PostgreSQLServer, slot: str) -> None:
    table = f"{slot}.t"
    postgresql.sql(
        f"create schema {slot}",
        "do $$ begin create type mood as enum ('sad', 'happy'); exception when duplicate_object then null; end $$",
        f"create table {table} (id int primary key, {definitions(POSTGRESQL)})",
        f"alter table {table} replica identity full",
        f"insert into {table} values (1, {values(POSTGRESQL)})",
    )
    check(connection_to(postgresql, slot), POSTGRESQL, postgresql)


def test_domains_and_enums_of_all_kinds_are_read_as_the_types_below_them(
    postgresql: PostgreSQLServer, slot: str
) -> None:
    """One that no table has would already stop Debezium's connector, which reads all types of the database."""
    cases = (
        Case(f"{slot}.of_enum", "'b'", "string", P, "b"),
        Case(f"{slot}.of_enum[]", "'{b,null}'", "array<string>", "array", ["b", None]),
        Case(f"{slot}.of_enums", "'{b,null}'", "array<string>", "array", ["b", None]),
        Case(f"{slot}.empty[]", "'{null}'", "array<string>", "array", [None]),
        Case(f"{slot}.of_domain", "'a'", "string", P, "a"),
        Case(f"{slot}.of_int", "5", "int", P, 5),
    )
    postgresql.sql(
        f"create schema {slot}",
        f"create type {slot}.letter as enum ('a', 'b')",
        f"create type {slot}.empty as enum ()",
        f"create domain {slot}.of_enum as {slot}.letter",
        f"create domain {slot}.of_domain as {slot}.of_enum",
        f"create domain {slot}.of_enums as {slot}.letter[]",
        f"create domain {slot}.of_int as int",
        f"create table {slot}.t (id int primary key, {definitions(cases)})",
        f"alter table {slot}.t replica identity full",
        f"insert into {slot}.t values (1, {values(cases)})",
    )
    check(connection_to(postgresql, slot), cases, postgresql)


OLD = ("0044-03-15 BC", "0001-12-31 BC", "0001-01-01", "1500-03-01", "1582-10-10", "1900-01-01", "9999-12-31")
"""Dates of several calendars; by that of today, days go on before 1582 as after."""


def test_dates_of_all_times_are_the_same_in_snapshot_and_stream(postgresql: PostgreSQLServer, slot: str) -> None:
    table = f'{slot}."T.x"'
    kinds = ("date", f"{slot}.day", "timestamp", "timestamptz")
    columns = [f'"C {i}" {kind}' for i, kind in enumerate(kinds)]
    dates = [repr(date) for date in (*OLD, "infinity")] + ["null", "'-infinity'"]
    values = ", ".join(f"({i}, {', '.join([date] * len(kinds))})" for i, date in enumerate(dates))
    postgresql.sql(
        f"create schema {slot}",
        f"create domain {slot}.day as date",
        f"create table {table} (id int primary key, {', '.join(columns)}, secret date, n int default 7)",
        f"insert into {table} values {values}",
    )
    excluded = {"column.exclude.list": rf"{slot}\.T\.x\.secret"}
    for properties in ({}, excluded):
        of_slot = f"{slot}_{len(properties)}"
        connection = replace(connection_to(postgresql, of_slot), tables=(rf"{slot}\.T\.x",), properties=properties)
        first = drain(connection)
        postgresql.sql(f"update {table} set n = n")
        second = drain(connection, first.position)
        rows = [{row["id"]: row for _, row in part.changes} for part in (first, second)]
        assert rows[0] == rows[1]
        assert len(rows[0]) == 10
        assert ("secret" in rows[0][0]) == (not properties)
        for i, date in enumerate(OLD):
            days = int(postgresql.sql(f"select date '{date}' - date '1970-01-01'"))
            assert [rows[0][i][f"C {place}"] for place in (0, 1)] == [days, days]
            assert rows[0][i]["C 2"] == days * 86_400_000_000
            assert rows[0][i]["n"] == 7
        for i in (7, 9):
            assert not -719_162 <= rows[0][i]["C 0"] <= 2_932_896
        assert [rows[0][8][f"C {place}"] for place in range(4)] == [None] * 4


def test_types_of_mariadb(mariadb: MariaDBServer, slot: str) -> None:
    """The server's time zone is not UTC."""
    table = f"{slot}.t"
    mariadb.sql(
        f"create database {slot}",
        f"create table {table} (id int primary key, {definitions(MARIADB)})",
        f"insert into {table} values (1, {values(MARIADB)})",
    )
    connection = DebeziumConnection("mariadb", "127.0.0.1", mariadb.port, slot, "root", "", (rf"{slot}\.t",), slot)
    check(connection, MARIADB, mariadb)


def connection_to(postgresql: PostgreSQLServer, slot: str) -> DebeziumConnection:
    return DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "postgres", "nothing", (rf"{slot}\.t",), slot
    )


LONG = {
    "text": "repeat('x', 9000)",
    "bytea": "decode(repeat('ab', 9000), 'hex')",
    "jsonb": "to_jsonb(repeat('x', 9000))",
    "text[]": "array[repeat('x', 9000)]",
    "int[]": "array(select generate_series(1, 5000))",
    "bigint[]": "array(select generate_series(1, 5000)::bigint)",
    "date[]": "array(select date '2024-01-01' + generate_series(1, 5000))",
    "uuid[]": "array(select md5(g::text)::uuid from generate_series(1, 2000) g)",
    "bytea[]": "array[decode(repeat('ab', 9000), 'hex')]",
    "timestamp[]": "array(select timestamp '2024-01-01' + g * interval '1 s' from generate_series(1, 5000) g)",
}
"""Values that PostgreSQL keeps out of line."""


def long_table(postgresql: PostgreSQLServer, slot: str, kinds: list[str]) -> None:
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds))
    external = ", ".join(f"alter c{i} set storage external" for i in range(len(kinds)))
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.t (id int primary key, n int, {columns})",
        f"alter table {slot}.t {external}",
        f"insert into {slot}.t values (1, 1, {', '.join(LONG[kind] for kind in kinds)})",
    )


def test_a_long_value_that_an_update_leaves_alone_is_distinguished_from_others(
    postgresql: PostgreSQLServer, slot: str
) -> None:
    kinds = [kind for kind in LONG if kind != "timestamp[]"]
    long_table(postgresql, slot, kinds)
    position = drain(connection_to(postgresql, slot)).position
    postgresql.sql(f"update {slot}.t set n = 2")
    ((_, row),) = drain(connection_to(postgresql, slot), position).changes
    texts = [value if isinstance(value, str) else json.dumps(value, separators=(",", ":")) for value in row.values()][
        2:
    ]
    assert set(texts) <= set(DEBEZIUM.unavailable)


def test_long_values_that_would_become_nulls_are_refused(postgresql: PostgreSQLServer, slot: str) -> None:
    long_table(postgresql, slot, ["timestamp[]"])
    connection = connection_to(postgresql, slot)
    with pytest.raises(
        SourceError, match=rf"{slot}\.t\.c0 \(timestamp[\s\S]*alter table {slot}\.t replica identity full"
    ):
        DebeziumTransport(connection).check_source(None)
    postgresql.sql(f"alter table {slot}.t replica identity full")
    position = drain(connection).position
    postgresql.sql(f"update {slot}.t set n = 2")
    ((_, row),) = drain(connection, position).changes
    assert len(row["c0"]) == 5000


@pytest.mark.parametrize(
    "kind", ["varbit(12)", "bit(3)[]", "int[][]", "interval[]", "money[]", "xml[]", "name[]", "point[]"]
)
@pytest.mark.parametrize("is_domain", [False, True])
def test_a_column_that_can_not_be_read_exactly_is_named(
    postgresql: PostgreSQLServer, slot: str, kind: str, is_domain: bool
) -> None:
    own = f"{slot}.own" if is_domain else kind
    postgresql.sql(
        f"create schema {slot}",
        f"create domain {slot}.own as {kind}",
        f"create table {slot}.t (id int primary key, c {own})",
    )
    connection = connection_to(postgresql, slot)
    with pytest.raises(SourceError, match=rf"can't be read exactly: {slot}\.t\.c [\s\S]*column.exclude.list"):
        DebeziumTransport(connection).check_source(None)
    excluding = DebeziumConnection(**{**vars(connection), "properties": {"column.exclude.list": rf"{slot}\.t\.c"}})
    DebeziumTransport(excluding).check_source(None)
