"""Random values of the types of the documentation come by snapshot, stream and load as the database has them.

Each column is compared as a text that the database makes of the value, and Spark of the ingested one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.debezium import DEBEZIUM
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.writing.decode_events import REASON, decode_changes
from arctic_runtime.ingest.writing.event_frames import to_dataframe
from tests.ingest.reading import Reading, drain, drained, opened
from tests.ingest.servers import MariaDBServer, PostgreSQLServer

Draw = Callable[[random.Random], str]


@dataclass(frozen=True)
class Kind:
    """A type, how a value is drawn, its text in the database and in Spark, what is compared of these, and its literal.

    `{c}` stands for a column, `{s}` for the schema, and `{v}` for a value.
    """

    sql: str
    draw: Draw
    shown: str = "{c}"
    read: str = "cast({c} as string)"
    parse: Callable[[str], str] = str
    literal: str = "'{v}'"


def whole(bits: int, unsigned: bool = False) -> Draw:
    if unsigned:
        return lambda chance: str(chance.choice([0, 2**bits - 1, chance.randrange(2**bits), chance.randrange(9)]))
    edge = 2 ** (bits - 1)
    return lambda chance: str(
        chance.choice([0, -edge, edge - 1, chance.randrange(-edge, edge), chance.randrange(-9, 9)])
    )


def digits(before: int, after: int) -> Draw:
    def draw(chance: random.Random) -> str:
        number = "".join(chance.choices("0123456789", k=chance.randint(1, before)))
        rest = "".join(chance.choices("0123456789", k=chance.randint(0, after)))
        return f"{chance.choice(['', '-'])}{number}{'.' if rest else ''}{rest}"

    return draw


def free_number(chance: random.Random) -> str:
    return chance.choice(["NaN", "Infinity", "-Infinity", "0", "-0.000", digits(60, 0)(chance), digits(20, 40)(chance)])


def binary_number(bits: int) -> Draw:
    def draw(chance: random.Random) -> str:
        number = chance.uniform(-1, 1) * 10 ** chance.randint(-30, 30)
        return chance.choice(["NaN", "Infinity", "-Infinity", "-0", f"{number:.{9 if bits == 32 else 17}g}"])

    return draw


def time_of_day(chance: random.Random) -> str:
    clock = f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"
    return f"{clock}.{chance.randrange(10**6):06}" if chance.random() < 0.7 else clock


def date(chance: random.Random) -> str:
    year = chance.choice([1, 4, 1582, 1899, 1970, 2024, 9999, chance.randint(1, 9999)])
    return f"{year:04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"


def moment(chance: random.Random) -> str:
    return f"{date(chance)} {time_of_day(chance)}"


def zoned_moment(chance: random.Random) -> str:
    year = chance.randint(2, 9998)
    zone = f"{chance.choice('+-')}{chance.randrange(14):02}:{chance.choice(['00', '30', '45'])}"
    return f"{year:04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02} {time_of_day(chance)}{zone}"


def interval(chance: random.Random) -> str:
    parts = [f"{chance.randint(-30, 30)} {unit}" for unit in ("years", "mons", "days") if chance.random() < 0.5]
    clock = f"{chance.choice(['', '-'])}{chance.choice([0, 3, 30, 3000])}:{chance.randrange(60)}:{chance.randrange(60)}"
    return chance.choice(
        ["0", "6.714286 s", "-03:04:05.714286", " ".join([*parts, f"{clock}.{chance.randrange(10**6):06}"])]
    )


def letters(chance: random.Random) -> str:
    return "".join(chance.choices('aZ09 äß☃😀"\\{},;:/<&\t\n', k=chance.randint(0, 12))).replace("'", "''")


def hexes(count: int) -> Draw:
    return lambda chance: "".join(chance.choices("0123456789abcdef", k=count))


INTERVAL = (
    "'P' || extract(year from {c}) || 'Y' || extract(month from {c}) || 'M' || extract(day from {c}) || 'DT' || "
    "extract(hour from {c}) || 'H' || extract(minute from {c}) || 'M' || trim_scale(extract(second from {c})) || 'S'"
)
MICROS = {"shown": "to_char({c}, 'YYYY-MM-DD HH24:MI:SS.US')", "read": "date_format({c}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"}
LIST = {"shown": "array_to_json({c}::text[])", "read": "to_json({c}, map('ignoreNullFields', 'false'))"}


def bits_of(number: str) -> str:
    """A number with its sign, also of zero, so that each bit counts."""
    return repr(float(number))


def json_number(chance: random.Random) -> str:
    return json.dumps({"a": [1, chance.randrange(10**12) / 10**6]})


KINDS_OF_POSTGRESQL = (
    Kind("smallint", whole(16)),
    Kind("int", whole(32)),
    Kind("bigint", whole(64)),
    Kind("numeric(12,3)", digits(9, 3)),
    Kind("numeric(38,10)", digits(28, 10)),
    Kind("numeric(50,2)", digits(48, 2)),
    Kind("numeric", free_number),
    Kind("{s}.amount", free_number),
    Kind("real", binary_number(32), "{c}::float8", "cast({c} as double)", bits_of),
    Kind("double precision", binary_number(64), read="cast({c} as double)", parse=bits_of),
    Kind("text", letters),
    Kind("varchar(40)", letters),
    Kind("char(14)", letters, "rpad({c}::text, 14)"),
    Kind(
        "bytea", lambda chance: rf"\x{hexes(2 * chance.randint(0, 9))(chance)}", "encode({c}, 'hex')", "lower(hex({c}))"
    ),
    Kind("boolean", lambda chance: chance.choice(["true", "false"])),
    Kind("date", date),
    Kind("time", time_of_day, "to_char({c}, 'HH24:MI:SS.US')"),
    Kind("timestamp", moment, **MICROS),
    Kind("timestamp(3)", moment, **MICROS),
    Kind(
        "timestamptz",
        zoned_moment,
        "(extract(epoch from {c}) * 1000000)::bigint",
        "cast(unix_micros({c}) as string)",
    ),
    Kind("interval", interval, INTERVAL),
    Kind("{s}.duration", interval, INTERVAL),
    Kind("uuid", hexes(32)),
    Kind("json", json_number),
    Kind("jsonb", lambda chance: chance.choice(['{"b":  2.50, "a": null}', "[]", '"ü"'])),
    Kind("inet", lambda chance: f"10.{chance.randrange(256)}.0.1/{chance.randint(8, 32)}", "abbrev({c})"),
    Kind("int4range", lambda chance: f"[{chance.randrange(5)},{chance.randint(5, 9)})"),
    Kind("numeric[]", lambda chance: f"{{{digits(20, 40)(chance)},null}}", **LIST),
    Kind("text[]", lambda chance: f"{{a,null,{chance.randrange(99)}}}", **LIST),
)


def single(chance: random.Random) -> str:
    number = chance.uniform(-1, 1) * 10.0 ** chance.randint(-36, 38)
    return chance.choice(["16777216", "3.14159274", "-3.40282347e38", "1.17549435e-38", f"{number:.9g}"])


def double(chance: random.Random) -> str:
    return f"{chance.uniform(-1, 1) * 10.0 ** chance.randint(-300, 300):.17g}"


def drawn_from(characters: str) -> Draw:
    return lambda chance: "".join(chance.choices(characters, k=chance.randint(0, 9))).replace("'", "''")


def long_time(chance: random.Random) -> str:
    clock = f"{chance.choice([0, 3, 23, 24, 100, 838])}:{chance.randrange(60):02}:{chance.randrange(59):02}"
    return f"{chance.choice(['', '-'])}{clock}.{chance.randrange(10**6):06}"


def bits(count: int) -> Draw:
    return lambda chance: format(chance.getrandbits(count), "b")


def local_moment(chance: random.Random) -> str:
    """Also one that some time zones skip, and one that no calendar of Java has."""
    return chance.choice(["2024-03-31 02:30:00.5", "1582-10-10 00:00:00", moment(chance)])


def kept_moment(chance: random.Random) -> str:
    """A moment in UTC, also of an hour that some time zones have twice."""
    return chance.choice(
        ["2024-10-27 00:30:00", "2024-10-27 01:30:00.5", f"{chance.randint(1971, 2037)}-07-01 02:03:04"]
    )


WORDS = """'ü,c', 'it''s', ' x', '"q"', '%_', '(a', 'a)', 'trailing '"""
SET = """'ü', 'it''s', ' x', '"q"', '%_', '(a', 'a)', 'trailing '"""
KINDS_OF_MARIADB = (
    Kind("tinyint", whole(8)),
    Kind("tinyint unsigned", whole(8, True)),
    Kind("smallint unsigned", whole(16, True)),
    Kind("mediumint", whole(24)),
    Kind("int unsigned", whole(32, True)),
    Kind("bigint", whole(64)),
    Kind("bigint unsigned", whole(64, True)),
    Kind("decimal(12,3)", digits(9, 3)),
    Kind("decimal(38,10)", digits(28, 10)),
    Kind("decimal(65,30)", digits(35, 30)),
    Kind("float", single, "cast({c} as double)", "cast({c} as double)", bits_of),
    Kind("float(9,3)", digits(6, 3), "cast({c} as double)", "cast({c} as double)", bits_of),
    Kind("double", double, read="cast({c} as double)", parse=bits_of),
    Kind("double(10,3)", digits(7, 3), "{c} * 1e0", read="cast({c} as double)", parse=bits_of),
    Kind("bit(1)", bits(1), "{c} + 0", "cast(cast({c} as int) as string)", literal="b'{v}'"),
    Kind("bit(12)", bits(12), "lpad(hex({c}), 4, '0')", "substr(hex({c}), 3) || left(hex({c}), 2)", literal="b'{v}'"),
    Kind("char(14)", letters),
    Kind("varchar(40)", letters),
    Kind("varchar(40) character set latin1", drawn_from("aZ \"',äß\\")),
    Kind("varchar(40) character set sjis", drawn_from("aZ日本ソ表")),
    Kind("text character set utf16", drawn_from("aZ日😀")),
    Kind("binary(4)", hexes(4), "hex({c})", "hex({c})", literal="x'{v}'"),
    Kind("blob", hexes(10), "hex({c})", "hex({c})", literal="x'{v}'"),
    Kind("date", date),
    Kind("time(6)", long_time),
    Kind("datetime(6)", local_moment, **{**MICROS, "shown": "{c}"}),
    Kind("datetime(3)", local_moment, **{**MICROS, "shown": "concat({c}, '000')"}),
    Kind("timestamp(6) null", kept_moment, "floor(unix_timestamp({c}) * 1000000)", "cast(unix_micros({c}) as string)"),
    Kind("year", lambda chance: chance.choice(["0", "1901", "2155", str(chance.randint(1901, 2155))]), "{c} + 0"),
    Kind(f"enum({WORDS})", lambda chance: str(chance.randint(1, 8)), literal="{v}"),
    Kind(f"set({SET}) character set utf8mb4", lambda chance: str(chance.getrandbits(8)), literal="{v}"),
    Kind("json", json_number),
    Kind(
        "point",
        lambda chance: f"point({chance.uniform(-9, 9)}, {chance.randrange(9)})",
        "replace(to_base64(st_aswkb({c})), '\n', '')",
        "get_json_object({c}, '$.wkb')",
        literal="{v}",
    ),
)  # fmt: skip


def ingested(spark: SparkSession, reading: Reading, kinds: tuple[Kind, ...]) -> dict[int, list[Any]]:
    """The ingested rows by id, each value as it is to be compared."""
    rows: dict[int, list[Any]] = {}
    for batch in reading.batches:
        for events in batch.tables:
            assert events.schema is not None
            decoded = decode_changes(to_dataframe(spark, events), DEBEZIUM, events.schema)
            values = [F.expr(kind.read.format(c=f"c{i}")) for i, kind in enumerate(kinds)]
            for reason, number, *row in decoded.select(REASON, "id", *values).collect():
                assert reason is None
                rows[number] = row
    return rows


@dataclass(frozen=True)
class Values:
    """The values of `2 * count` rows of a table, as literals of SQL, and how they are written and shown."""

    kinds: tuple[Kind, ...]
    count: int
    write: Callable[[Sequence[str]], None]
    show: Callable[[str], Mapping[str, Any]]

    def check(self, spark: SparkSession, connection: DebeziumConnection) -> None:
        """The first half of the rows is read by a snapshot, the second by the stream, and then all by a load."""
        seed = random.SystemRandom().randrange(2**32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        drawn = [[kind.literal.format(v=kind.draw(chance)) for kind in self.kinds] for _ in range(self.count)]
        rows = [", ".join("null" if chance.random() < 0.05 else value for value in row) for row in drawn]
        table = connection.tables[0].replace("\\", "")
        self.write([f"({i}, {row})" for i, row in enumerate(rows)])
        with opened(connection) as transport:
            snapshot = ingested(spark, drained(transport), self.kinds)
            self.write([f"({i + self.count}, {row})" for i, row in enumerate(rows)])
            stream = ingested(spark, drained(transport), self.kinds)
        load = ingested(spark, drain(connection.for_load([table])), self.kinds)
        for i, kind in enumerate(self.kinds):
            expected = {
                int(number): None if text is None else kind.parse(str(text))
                for number, text in self.show(kind.shown.format(c=f"c{i}")).items()
            }
            for way in (snapshot, stream, load):
                result = {number: row[i] if row[i] is None else kind.parse(str(row[i])) for number, row in way.items()}
                assert result == {number: expected[number] for number in result}, kind.sql
        assert sorted([*snapshot, *stream]) == sorted(load) == list(range(2 * self.count))


def define(kinds: tuple[Kind, ...], schema: str) -> str:
    columns = ", ".join(f"c{i} {kind.sql.format(s=schema)}" for i, kind in enumerate(kinds))
    return f"create table {schema}.t (id int primary key, {columns})"


OTHER_SETTINGS = (
    "datestyle = 'German'", "intervalstyle = 'sql_standard'", "bytea_output = 'escape'", "extra_float_digits = -5",
    "timezone = 'Asia/Kolkata'",
)  # fmt: skip
"""Settings of PostgreSQL that change how it writes values, for all sessions of a database."""


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (40, OTHER_SETTINGS),
        pytest.param(40, (), marks=pytest.mark.slow),
        pytest.param(2_000, (), marks=pytest.mark.slow),
    ],
)
def test_random_values_are_those_of_postgresql(
    postgresql: PostgreSQLServer, slot: str, spark: SparkSession, count: int, settings: tuple[str, ...]
) -> None:
    postgresql.sql(
        f"create schema {slot}",
        f"create domain {slot}.amount as numeric",
        f"create domain {slot}.duration as interval",
        define(KINDS_OF_POSTGRESQL, slot),
        f"alter table {slot}.t replica identity full",
        *[f"alter database shop set {setting}" for setting in settings],
    )

    def write(rows: Sequence[str]) -> None:
        with postgresql.session() as session:
            session.sql("set datestyle = 'ISO'", *[f"insert into {slot}.t values {row}" for row in rows])

    def show(text: str) -> Mapping[str, Any]:
        exact = ("datestyle = 'ISO'", "intervalstyle = 'postgres'", "bytea_output = 'hex'", "extra_float_digits = 1")
        shown = f"select json_object_agg(id, ({text})::text) from {slot}.t"
        answer: Mapping[str, Any] = json.loads(postgresql.sql(*[f"set {setting}" for setting in exact], shown))
        return answer

    connection = DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "postgres", "-", (rf"{slot}\.t",), slot
    )
    try:
        Values(KINDS_OF_POSTGRESQL, count, write, show).check(spark, connection)
    finally:
        postgresql.sql(*[f"alter database shop reset {setting.split()[0]}" for setting in settings])


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("count", "mode"),
    [
        (40, "PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES,ALLOW_INVALID_DATES"),
        pytest.param(40, "TRADITIONAL", marks=pytest.mark.slow),
        pytest.param(40, "ANSI", marks=pytest.mark.slow),
        pytest.param(2_000, "", marks=pytest.mark.slow),
    ],
)
def test_random_values_are_those_of_mariadb_in_every_sql_mode(
    mariadb: MariaDBServer, slot: str, spark: SparkSession, count: int, mode: str
) -> None:
    def write(rows: Sequence[str]) -> None:
        session = ("set sql_mode = 'NO_BACKSLASH_ESCAPES'", "set time_zone = '+00:00'")
        for i in range(0, len(rows), 20):
            mariadb.sql(*session, f"insert into {slot}.t values {', '.join(rows[i : i + 20])}")

    def show(text: str) -> Mapping[str, Any]:
        """The values as hexadecimal, which the client does not escape."""
        shown = f"select id, hex(convert(cast({text} as char) using utf8mb4)) from {slot}.t"
        rows = [line.partition("\t") for line in mariadb.sql("set sql_mode = ''", shown).splitlines()]
        return {number: None if digits == "NULL" else bytes.fromhex(digits).decode() for number, _, digits in rows}

    before = mariadb.sql("select @@global.sql_mode")
    mariadb.sql(f"create database {slot}", define(KINDS_OF_MARIADB, slot), f"set global sql_mode = '{mode}'")
    connection = DebeziumConnection("mariadb", "127.0.0.1", mariadb.port, slot, "root", "", (rf"{slot}\.t",), slot)
    try:
        Values(KINDS_OF_MARIADB, count, write, show).check(spark, connection)
    finally:
        mariadb.sql(f"set global sql_mode = '{before}'")
