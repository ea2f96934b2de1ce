"""Random values of the types of the documentation are the same in snapshot and stream, and as the database shows them.

Each column is compared as a text that PostgreSQL makes of the value, and Spark of the ingested one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.debezium import DEBEZIUM
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.writing.decoding.decode_events import REASON, decode_changes
from arctic_runtime.ingest.writing.decoding.event_frames import to_dataframe
from tests.ingest.reading import Reading, drained, opened
from tests.ingest.servers import PostgreSQLServer

Draw = Callable[[random.Random], str]


@dataclass(frozen=True)
class Kind:
    """A type, how a value is drawn, its text in PostgreSQL and in Spark, and what is compared of these."""

    sql: str
    draw: Draw
    shown: str = "{c}::text"
    read: str = "cast({c} as string)"
    parse: Callable[[str], str] = str


def whole(bits: int) -> Draw:
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
LIST = {"shown": "array_to_json({c}::text[])::text", "read": "to_json({c}, map('ignoreNullFields', 'false'))"}


def bits_of(number: str) -> str:
    """A number with its sign, also of zero, so that each bit counts."""
    return repr(float(number))


def json_number(chance: random.Random) -> str:
    return json.dumps({"a": [1, chance.randrange(10**12) / 10**6]})


KINDS = (
    Kind("smallint", whole(16)),
    Kind("int", whole(32)),
    Kind("bigint", whole(64)),
    Kind("numeric(12,3)", digits(9, 3)),
    Kind("numeric(38,10)", digits(28, 10)),
    Kind("numeric(50,2)", digits(48, 2)),
    Kind("numeric", free_number),
    Kind("{s}.amount", free_number),
    Kind("real", binary_number(32), "{c}::float8::text", "cast({c} as double)", bits_of),
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
        "(extract(epoch from {c}) * 1000000)::bigint::text",
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


def ingested(spark: SparkSession, reading: Reading) -> dict[int, list[Any]]:
    """The ingested rows by id, each value as it is to be compared."""
    rows: dict[int, list[Any]] = {}
    for batch in reading.batches:
        for events in batch.tables:
            assert events.schema is not None
            decoded = decode_changes(to_dataframe(spark, events), DEBEZIUM, events.schema)
            values = [F.expr(kind.read.format(c=f"c{i}")) for i, kind in enumerate(KINDS)]
            for reason, number, *row in decoded.select(REASON, "id", *values).collect():
                assert reason is None
                rows[number] = row
    return rows


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
def test_random_values_are_those_of_the_database(
    postgresql: PostgreSQLServer, slot: str, spark: SparkSession, count: int
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    columns = ", ".join(f"c{i} {kind.sql.format(s=slot)}" for i, kind in enumerate(KINDS))
    drawn = [[kind.draw(chance) if chance.random() > 0.05 else None for kind in KINDS] for _ in range(count)]
    values = [", ".join("null" if text is None else f"'{text}'" for text in row) for row in drawn]
    postgresql.sql(
        f"create schema {slot}",
        f"create domain {slot}.amount as numeric",
        f"create domain {slot}.duration as interval",
        f"create table {slot}.t (id int primary key, {columns})",
        f"alter table {slot}.t replica identity full",
    )
    connection = DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "postgres", "-", (rf"{slot}\.t",), slot
    )
    with postgresql.session() as session:
        session.sql(*[f"insert into {slot}.t values ({i}, {row})" for i, row in enumerate(values)])
    with opened(connection) as transport:
        snapshot = ingested(spark, drained(transport))
        with postgresql.session() as session:
            session.sql(*[f"insert into {slot}.t values ({i + count}, {row})" for i, row in enumerate(values)])
        stream = ingested(spark, drained(transport))
    for i, kind in enumerate(KINDS):
        shown = postgresql.sql(f"select json_object_agg(id, {kind.shown.format(c=f'c{i}')}) from {slot}.t")
        expected = {
            int(number): None if text is None else kind.parse(text) for number, text in json.loads(shown).items()
        }
        for rows in (snapshot, stream):
            result = {number: row[i] if row[i] is None else kind.parse(str(row[i])) for number, row in rows.items()}
            assert result == {number: expected[number] for number in result}, kind.sql
    assert sorted([*snapshot, *stream]) == list(range(2 * count))
