"""A real MariaDB through Debezium's engine: nothing is lost, nothing comes twice, and errors say what to do."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.thresholds import SHIPPED
from tests.ingest.reading import Reading, drain, drained, opened, progress
from tests.ingest.servers import MariaDBServer

SMALL = replace(SHIPPED.debezium, poll_events=100, batch_bytes=1)
"""Batches that end inside of transactions."""

PASSWORD = "s3cret-of-the-test"
RIGHTS = "select, reload, lock tables, replication slave, replication client"


@pytest.fixture
def connection(mariadb: MariaDBServer, slot: str) -> DebeziumConnection:
    """A connection to tables `a` and `b` of a database of the test's own, by a user with no more rights than needed."""
    mariadb.sql(
        f"create database {slot}",
        f"create table {slot}.a (id int primary key, name varchar(5000))",
        f"create table {slot}.b (id bigint primary key, amount decimal(10, 2))",
        f"create user {slot}@'127.0.0.1' identified by '{PASSWORD}'",
        f"grant {RIGHTS} on *.* to {slot}@'127.0.0.1'",
    )
    return DebeziumConnection(
        "mariadb", "127.0.0.1", mariadb.port, slot, slot, PASSWORD, (rf"{slot}\.a", rf"{slot}\.b"), slot
    )


def test_a_snapshot_is_followed_by_what_happened_since(mariadb: MariaDBServer, connection: DebeziumConnection) -> None:
    at = connection.slot
    mariadb.sql(f"insert into {at}.a values (1, 'n1'), (2, 'n2'), (3, 'n3')")
    with opened(connection) as transport:
        first = drained(transport)
        mariadb.sql(
            f"insert into {at}.b values (7, 1.50)",
            f"update {at}.a set name = 'new' where id = 2",
            f"delete from {at}.a where id = 1",
            f"truncate {at}.b",
        )
        second = drained(transport)
    assert first.changes == [("r", {"id": i, "name": f"n{i}"}) for i in (1, 2, 3)]
    operations = [(table.removeprefix(f"{at}."), event["op"]) for table, event in second.events]
    assert operations == [("b", "c"), ("a", "u"), ("a", "d"), ("b", "t")]
    assert second.changes[0][1] == {"id": 7, "amount": "1.50"}
    assert dict(second.schemas)[f"{at}.a"] == dict(first.schemas)[f"{at}.a"]
    assert second.events[1][1]["before"] == {"id": 2, "name": "n2"}


def test_an_old_position_gives_exactly_what_follows_wherever_its_batch_ended(
    mariadb: MariaDBServer, connection: DebeziumConnection
) -> None:
    """A statement's rows are events of many rows in the log, and a transaction has many of these."""
    at = connection.slot
    position = drain(connection).position
    many = ", ".join(f"({i}, repeat('n', 100))" for i in range(250))
    more = ", ".join(f"({i}, 1)" for i in range(250, 370))
    mariadb.sql(
        "begin", f"insert into {at}.a values {many}", f"insert into {at}.b values {more}",
        f"update {at}.b set amount = 2 where id < 300", "commit", f"delete from {at}.a where id < 30",
    )  # fmt: skip
    with opened(connection, position, thresholds=SMALL) as transport:
        whole = drained(transport)
    assert whole.ids == [*range(370), *range(250, 300), *range(30)]
    assert len([batch for batch in whole.batches if batch.count]) > 4
    for place, batch in enumerate(whole.batches[:-1], 1):
        rest = drain(connection, progress(batch), thresholds=SMALL)
        assert rest.changes == Reading(whole.batches[place:]).changes


def test_definitions_of_tables_are_those_of_the_position(
    mariadb: MariaDBServer, connection: DebeziumConnection
) -> None:
    """The log has no names of columns: events from before a change are read by the definition of then."""
    at = connection.slot
    position = drain(connection).position
    mariadb.sql(
        f"insert into {at}.a values (1, 'x')",
        f"alter table {at}.a add extra date first",
        f"insert into {at}.a values ('2024-02-29', 2, 'y')",
        f"alter table {at}.a drop extra",
        f"insert into {at}.a values (3, 'z')",
    )
    reading = drain(connection, position)
    columns = [[column.name for column in schema.columns] for _, schema in reading.schemas if schema]
    assert columns == [["id", "name"], ["extra", "id", "name"], ["id", "name"]]
    assert [row for _, row in reading.changes] == [
        {"id": 1, "name": "x"},
        {"extra": 19782, "id": 2, "name": "y"},
        {"id": 3, "name": "z"},
    ]
    mariadb.sql(f"insert into {at}.a values (4, 'w')")
    assert drain(connection, reading.position).ids == [4]
    assert drain(connection, position).ids == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_position_is_short_and_its_progress_has_the_definitions(
    mariadb: MariaDBServer, connection: DebeziumConnection
) -> None:
    """Positions are in the summary of every commit, progress only in one table's properties."""
    columns = ", ".join(f"column_{i} varchar(100) default 'x'" for i in range(30))
    mariadb.sql(*[f"create table {connection.slot}.t{i} (id int primary key, {columns})" for i in range(20)])
    reading = drain(replace(connection, tables=(rf"{connection.slot}\..*",)))
    assert len(reading.batches[-1].position) < 300
    assert 300 < len(reading.position) < 10_000


def test_a_source_without_changes_is_confirmed_while_it_is_followed(connection: DebeziumConnection) -> None:
    with opened(connection, thresholds=replace(SMALL, idle_seconds=0.5)) as transport:
        drained(transport)
        asked = datetime.now(timezone.utc)
        batches = transport.read_batches(until_drained=False)
        result = next(batch for batch in batches if batch.caught_up is not None and batch.caught_up > asked)
    assert result.count == 0


def test_a_position_without_definitions_is_refused(connection: DebeziumConnection) -> None:
    reading = drain(connection)
    with pytest.raises(SourceError, match=r"definitions of tables[\s\S]*arctic ingest --resync"):
        DebeziumTransport(connection).check_source(reading.batches[-1].position)


def test_events_are_left_out_up_to_a_tables_own_position(
    mariadb: MariaDBServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    position = drain(connection).position
    mariadb.sql(f"insert into {at}.a values {', '.join(f'({i}, 1)' for i in range(250))}")
    with opened(connection, position, thresholds=SMALL) as transport:
        reading = drained(transport)
    with opened(connection, position) as transport:
        again = [table for batch in drained(transport).batches for table in batch.tables]
        counts = [
            sum(transport.select_after(table, batch.position).events.num_rows for table in again)
            for batch in reading.batches
        ]
    behind = [sum(batch.count for batch in reading.batches[: i + 1]) for i in range(len(reading.batches))]
    assert counts == [250 - count for count in behind]


ROWS = 2_000
"""Of 5000 bytes each: more than the buffers on the way hold, so that a connection is lost inside of a transaction."""


def test_reading_continues_when_a_server_comes_back(
    mariadb: MariaDBServer, connection: DebeziumConnection, caplog: pytest.LogCaptureFixture
) -> None:
    at = connection.slot
    with opened(connection, thresholds=replace(SMALL, reconnect_poll_seconds=0.1)) as transport:
        drained(transport)
        mariadb.sql(f"insert into {at}.a select seq, repeat('n', 5000) from seq_1_to_{ROWS}")
        first = next(batch for batch in transport.read_batches(until_drained=False) if batch.count)
        mariadb.restart()
        mariadb.sql(f"insert into {at}.a values ({ROWS + 1}, 'after')")
        rest = drained(transport)
    assert Reading([first, *rest.batches]).ids == list(range(1, ROWS + 2))
    assert "Reading goes on" in caplog.text


@pytest.mark.slow
def test_a_server_that_is_silent_is_taken_for_lost(
    mariadb: MariaDBServer, connection: DebeziumConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """A reader of the log waits for ever where the network between is gone."""
    batches: list[Batch] = []
    impatient = replace(SHIPPED.debezium, silence_seconds=3.0, start_seconds=3.0, reconnect_poll_seconds=0.1)
    with opened(connection, thresholds=impatient) as transport:
        drained(transport)
        with mariadb.frozen():
            reader = threading.Thread(
                target=lambda: batches.extend(batch for batch in transport.read_batches(False) if batch.count)
            )
            reader.start()
            until = time.monotonic() + 120
            while "no sign of life" not in caplog.text and time.monotonic() < until:
                time.sleep(0.05)
        mariadb.sql(f"insert into {connection.slot}.a values (1, 'x')")
        while not batches and time.monotonic() < until:
            time.sleep(0.05)
    reader.join()
    assert Reading(batches).ids == [1]


def test_statements_that_only_mariadb_has_do_not_stop_the_reading(
    mariadb: MariaDBServer, connection: DebeziumConnection
) -> None:
    position = drain(connection).position
    mariadb.sql(
        f"create or replace sequence {connection.slot}.s start with 5",
        f"create view {connection.slot}.v as select 1",
        f"insert into {connection.slot}.a values (1, 'x')",
        f"drop sequence {connection.slot}.s",
    )
    assert drain(connection, position).ids == [1]


def test_a_column_that_only_mariadb_has_holds_its_table_alone(
    mariadb: MariaDBServer, connection: DebeziumConnection
) -> None:
    mariadb.sql(f"create table {connection.slot}.c (id int primary key, u uuid)")
    transport = DebeziumTransport(replace(connection, tables=(rf"{connection.slot}\..*",)))
    transport.check_source(None)
    unreadable = transport.find_unreadable([f"{connection.slot}.{name}" for name in "abc"])
    assert set(unreadable) == {f"{connection.slot}.c"}
    assert "u (uuid)" in unreadable[f"{connection.slot}.c"]


def test_a_purged_log_is_an_error_and_no_silent_snapshot(
    mariadb: MariaDBServer, connection: DebeziumConnection
) -> None:
    position = drain(connection).position
    mariadb.sql("flush binary logs")
    mariadb.purge_logs()
    for attempt in (DebeziumTransport(connection).check_source, DebeziumTransport(connection).open_at):
        with pytest.raises(SourceError, match=r"purged its binary log binlog\.\d+[\s\S]*arctic ingest --resync"):
            attempt(position)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"password": "wr0ng-password"}, r"the password of user \w+ is wrong"),
        ({"port": 1}, r"the server can't be reached"),
        ({"database": "nowhere"}, r"there is no database nowhere"),
        ({"tables": ("nowhere.a",)}, r"there is no table nowhere\.a"),
    ],
)
def test_obstacles_are_reported_before_anything_is_created(
    connection: DebeziumConnection, change: dict[str, object], expected: str
) -> None:
    broken = replace(connection, **change)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=expected) as raised:
        DebeziumTransport(broken).check_source(None)
    assert f"{broken.host}:{broken.port}" in str(raised.value)
    assert broken.password not in f"{raised.value!r} {raised.value} {broken!r}"


def test_a_missing_right_is_named(mariadb: MariaDBServer, connection: DebeziumConnection) -> None:
    mariadb.sql(f"revoke replication slave on *.* from {connection.user}@'127.0.0.1'")
    with pytest.raises(SourceError, match=r"lacks the right REPLICATION SLAVE[\s\S]*grant REPLICATION SLAVE on"):
        DebeziumTransport(connection).check_source(None)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [("binlog_row_image", "MINIMAL", "expected FULL"), ("binlog_format", "STATEMENT", "expected ROW")],
)
def test_a_setting_that_loses_values_is_reported(
    mariadb: MariaDBServer, connection: DebeziumConnection, setting: str, value: str, expected: str
) -> None:
    before = mariadb.sql(f"select @@global.{setting}")
    mariadb.sql(f"set global {setting} = '{value}'")
    try:
        with pytest.raises(SourceError, match=rf"{setting} is {value}, {expected}[\s\S]*set global {setting}"):
            DebeziumTransport(connection).check_source(None)
    finally:
        mariadb.sql(f"set global {setting} = '{before}'")


CHANGED_ELSEWHERE = {
    "view": (["create view {s}.t as select * from {s}.a"], r"{s}\.t is a view"),
    "versions": (["create table {s}.t (id int primary key) with system versioning"], r"{s}\.t is a system versioned"),
    "memory": (["create table {s}.t (id int primary key) engine = memory"], r"{s}\.t has the engine MEMORY"),
    "cascade": (
        ["create table {s}.t (id int primary key, a int, constraint of_a foreign key (a) references a(id) "
         "on delete cascade)"],
        r"foreign keys change rows of {s}\.t, [\s\S]*: of_a\.[\s\S]*`arctic\.mysql\.cascades: ignore`",
    ),
}  # fmt: skip
"""Statements that make `t`, and what the error says."""


@pytest.mark.parametrize("kind", CHANGED_ELSEWHERE)
def test_what_the_log_would_leave_out_is_named(
    mariadb: MariaDBServer, connection: DebeziumConnection, kind: str
) -> None:
    statements, expected = CHANGED_ELSEWHERE[kind]
    mariadb.sql(*[statement.format(s=connection.slot) for statement in statements], database=connection.slot)
    reader = replace(connection, tables=(rf"{connection.slot}\.t",))
    with pytest.raises(SourceError, match=expected.replace("{s}", connection.slot)):
        DebeziumTransport(reader).check_source(None)


def test_cascades_are_accepted_where_the_user_says_so(mariadb: MariaDBServer, connection: DebeziumConnection) -> None:
    statements, _ = CHANGED_ELSEWHERE["cascade"]
    mariadb.sql(*[statement.format(s=connection.slot) for statement in statements], database=connection.slot)
    accepting = {"arctic.mysql.cascades": "ignore"}
    DebeziumTransport(replace(connection, tables=(rf"{connection.slot}\.t",), properties=accepting)).check_source(None)


def test_generated_and_invisible_columns_are_followed(mariadb: MariaDBServer, connection: DebeziumConnection) -> None:
    at = connection.slot
    mariadb.sql(
        f"create table {at}.t (id int primary key, n int, twice int generated always as (n * 2) virtual, "
        "thrice int generated always as (n * 3) stored, hidden int invisible default 9)",
        f"insert into {at}.t (id, n) values (1, 1)",
    )
    with opened(replace(connection, tables=(rf"{at}\.t",))) as transport:
        first = drained(transport)
        mariadb.sql(f"update {at}.t set n = 5", f"insert into {at}.t (id, n, hidden) values (2, 7, 8)")
        second = drained(transport)
    rows = [row for _, row in (*first.changes, *second.changes)]
    names = ("id", "n", "twice", "thrice", "hidden")
    expected = [(1, 1, 2, 3, 9), (1, 5, 10, 15, 9), (2, 7, 14, 21, 8)]
    assert rows == [dict(zip(names, values, strict=True)) for values in expected]
