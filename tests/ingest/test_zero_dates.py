"""Dates of MySQL and MariaDB that no calendar has are dead letters by snapshot and stream; a null stays a null."""

from __future__ import annotations

from pyspark.sql import SparkSession

from arctic_runtime.ingest.formats.debezium import DEBEZIUM
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.writing.decode_events import REASON, decode_changes
from arctic_runtime.ingest.writing.event_frames import to_dataframe
from tests.ingest.reading import Reading, drained, opened
from tests.ingest.servers import MariaDBServer

DATES = (
    "date",
    "date not null",
    "date default '2000-01-01'",
    "date not null default '2000-01-01'",
    "datetime",
    "datetime not null",
    "datetime(6) not null default '2000-01-01'",
)
MOMENTS = ("timestamp null", "timestamp(6) not null default '2000-01-01'")
TYPES = (*DATES, *MOMENTS)
NO_DATES = ("0000-00-00", "2024-02-00", "2024-00-01", "0000-02-03", "2023-02-29")
"""The SQL mode ALLOW_INVALID_DATES allows the last one too."""

GOOD = "2024-02-29 12:00:00"

ZEROS = [(place, text) for place in range(len(DATES)) for text in NO_DATES]
ZEROS += [(place, "0000-00-00") for place in range(len(DATES), len(TYPES))]
"""The place of a column, and its value in a row whose other columns have good values."""


def row(number: int, bad: int | None = None, text: str = "") -> str:
    return f"({number}, {', '.join(repr(text if place == bad else GOOD) for place in range(len(TYPES)))})"


def reasons(spark: SparkSession, reading: Reading) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for batch in reading.batches:
        for events in batch.tables:
            assert events.schema is not None
            decoded = decode_changes(to_dataframe(spark, events), DEBEZIUM, events.schema)
            good = [f"c{place}" for place in range(len(TYPES))]
            for number, reason, *values in decoded.select("id", REASON, *good).collect():
                found[number] = reason
                if reason is None:
                    assert {value and value.isoformat()[:10] for value in values} <= {"2024-02-29", None}
                    assert [value is None for value in values] == [number == 1 and "not" not in kind for kind in TYPES]
    return found


def test_dates_that_no_calendar_has_are_dead_letters_of_snapshot_and_stream(
    mariadb: MariaDBServer, slot: str, spark: SparkSession
) -> None:
    nulls = ", ".join(repr(GOOD) if "not" in kind else "null" for kind in TYPES)
    rows = [row(0), f"(1, {nulls})", *[row(2 + i, *zero) for i, zero in enumerate(ZEROS)]]
    write = ("set sql_mode = 'ALLOW_INVALID_DATES'", f"insert into {slot}.t values {', '.join(rows)}")
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(TYPES))
    mariadb.sql(f"create database {slot}", f"create table {slot}.t (id int primary key, {columns})", *write)
    connection = DebeziumConnection("mariadb", "127.0.0.1", mariadb.port, slot, "root", "", (rf"{slot}\.t",), slot)
    with opened(connection) as transport:
        snapshot = reasons(spark, drained(transport))
        mariadb.sql(f"delete from {slot}.t")
        drained(transport)
        mariadb.sql(*write)
        stream = reasons(spark, drained(transport))
    assert snapshot == stream
    assert sorted(snapshot) == list(range(len(rows)))
    assert [snapshot[0], snapshot[1]] == [None, None]
    for i, (place, _) in enumerate(ZEROS):
        assert str(snapshot[2 + i]).startswith(f"column c{place}: the value does not fit"), ZEROS[i]
        assert "0000-00-00" in str(snapshot[2 + i])
