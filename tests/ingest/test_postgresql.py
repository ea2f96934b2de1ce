"""A real PostgreSQL through Debezium's engine: nothing is lost, nothing comes twice, and errors say what to do."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import jpype
import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.thresholds import SHIPPED
from tests.ingest.reading import Reading, drain, drained, opened
from tests.ingest.servers import PostgreSQLServer
from tests.spark.serving import until

SMALL = replace(SHIPPED.debezium, poll_events=100, batch_bytes=1)
"""Batches that end inside of transactions."""


@pytest.fixture
def connection(postgresql: PostgreSQLServer, slot: str) -> DebeziumConnection:
    """A connection to tables `a` and `b` of a schema of the test's own."""
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.a (id int primary key, name text)",
        f"create table {slot}.b (id bigint primary key, amount numeric(10, 2))",
    )
    return DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "postgres", "nothing", (f"{slot}.a", f"{slot}.b"), slot
    )


def test_a_snapshot_is_followed_by_what_happened_since(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    postgresql.sql(f"insert into {at}.a select g, 'n' || g from generate_series(1, 3) g")
    with opened(connection) as transport:
        first = drained(transport)
        postgresql.sql(
            f"insert into {at}.b values (7, 1.50)",
            f"update {at}.a set name = 'new' where id = 2",
            f"delete from {at}.a where id = 1",
        )
        second = drained(transport)
    assert first.changes == [("r", {"id": i, "name": f"n{i}"}) for i in (1, 2, 3)]
    operations = [(table.removeprefix(f"{at}."), event["op"]) for table, event in second.events]
    assert operations == [("b", "c"), ("a", "u"), ("a", "d")]
    assert second.changes[0][1] == {"id": 7, "amount": "1.50"}
    assert second.ids == [7, 2, 1]


def test_debezium_counts_events_and_makes_no_text_of_each(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    """Its metrics of single events cost a fourth of its time, so a version with other fields has to be noticed."""
    metrics = f"debezium.postgres:type=connector-metrics,context=streaming,server={connection.slot},*"
    with opened(connection) as transport:
        drained(transport)
        postgresql.sql(f"insert into {connection.slot}.b values (7, 1.50), (8, 2)")
        drained(transport)
        beans = jpype.JClass("java.lang.management.ManagementFactory").getPlatformMBeanServer()
        (name,) = beans.queryNames(jpype.JClass("javax.management.ObjectName")(metrics), None)
        assert int(beans.getAttribute(name, "TotalNumberOfCreateEventsSeen")) == 2
        assert beans.getAttribute(name, "LastEvent") is None
        assert int(beans.getAttribute(name, "MilliSecondsBehindSource")) == -1


def test_a_snapshot_and_the_stream_are_never_in_one_batch(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    postgresql.sql(f"insert into {at}.a select g, 'n' from generate_series(1, 3000) g")
    with opened(connection) as transport:
        writer = threading.Thread(target=postgresql.sql, args=[f"update {at}.a set name = 'late' where id < 9"])
        writer.start()
        reading = drained(transport)
        writer.join()
        rest = drained(transport)
    events = [*reading.changes, *rest.changes]
    kinds = [{op for op, _ in Reading([batch]).changes} for batch in [*reading.batches, *rest.batches]]
    assert all(len(kind) < 2 or "r" not in kind for kind in kinds)
    ends = [not batch.is_snapshot for batch, kind in zip(reading.batches, kinds, strict=False) if "r" in kind]
    assert ends == [False] * (len(ends) - 1) + [True]
    assert {row["id"]: row["name"] for _, row in events} == {i: "late" if i < 9 else "n" for i in range(1, 3001)}


def test_an_old_position_gives_exactly_what_follows_wherever_its_batch_ended(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    """Rows of one COPY have one place in the log, and Debezium alone loses those after the first batch."""
    at = connection.slot
    position = drain(connection).position
    postgresql.copy(f"{at}.a", [f"{i}\tn" for i in range(250)])
    postgresql.sql(
        f"begin; insert into {at}.a select g, 'm' from generate_series(250, 379) g; truncate {at}.b, {at}.a; "
        f"insert into {at}.b select g, 1 from generate_series(400, 549) g; commit"
    )
    with opened(connection, position, thresholds=SMALL) as transport:
        whole = drained(transport, acknowledge=False)
    expected = [*range(380), None, None, *range(400, 550)]
    assert [row and row["id"] for _, row in whole.changes] == expected
    assert len(whole.batches) > 4
    for place, batch in enumerate(whole.batches[:-1], 1):
        with opened(connection, batch.position, thresholds=SMALL) as transport:
            rest = drained(transport, acknowledge=False)
        assert rest.changes == Reading(whole.batches[place:]).changes


def test_what_was_not_acknowledged_comes_again(postgresql: PostgreSQLServer, connection: DebeziumConnection) -> None:
    at = connection.slot
    position = drain(connection).position
    for i in range(3):
        postgresql.sql(f"insert into {at}.a values ({i}, 'n')")
        with opened(connection, position) as transport:
            assert drained(transport, acknowledge=False).ids == list(range(i + 1))
    assert drain(connection, position).ids == [0, 1, 2]


def test_events_are_left_out_up_to_a_tables_own_position(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    position = drain(connection).position
    postgresql.copy(f"{at}.a", [f"{i}\tn" for i in range(250)])
    with opened(connection, position, thresholds=SMALL) as transport:
        reading = drained(transport, acknowledge=False)
    with opened(connection, position) as transport:
        again = [table for batch in drained(transport, False).batches for table in batch.tables]

        def left(position: str) -> int:
            return sum(transport.select_after(table, position).events.num_rows for table in again)

        counts = [left(batch.position) for batch in reading.batches]
        assert left(position) == left(transport.initial) == 250
    behind = [sum(batch.count for batch in reading.batches[: i + 1]) for i in range(len(reading.batches))]
    assert counts == [250 - count for count in behind]


def test_concurrent_transactions_come_by_their_commits(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    """A transaction that began before a position and commits after it is whole."""
    at = connection.slot
    position = drain(connection).position
    with postgresql.session() as slow:
        slow.sql("begin", f"insert into {at}.a values (1, 'slow')")
        postgresql.sql(f"insert into {at}.a values (2, 'quick')")
        middle = drain(connection, position)
        slow.sql(f"insert into {at}.a values (3, 'slow')", "commit")
    assert middle.ids == [2]
    assert drain(connection, middle.position).ids == [1, 3]


def test_a_column_that_is_added_divides_the_events_of_its_table(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    position = drain(connection).position
    postgresql.sql(
        f"insert into {at}.a values (1, 'x')",
        f"alter table {at}.a add extra date",
        f"insert into {at}.a values (2, 'y', '2024-02-29')",
        f"alter table {at}.a drop extra",
        f"insert into {at}.a values (3, 'z')",
    )
    reading = drain(connection, position)
    columns = [[column.name for column in schema.columns] for _, schema in reading.schemas if schema]
    assert columns == [["id", "name"], ["id", "name", "extra"], ["id", "name"]]
    assert reading.changes[1][1] == {"id": 2, "name": "y", "extra": 19782}
    assert reading.ids == [1, 2, 3]


def test_a_truncation_alone_tells_the_columns_and_the_key(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    position = drain(connection).position
    postgresql.sql(f"truncate {connection.slot}.a")
    reading = drain(connection, position)
    assert [event["op"] for _, event in reading.events] == ["t"]
    ((_, schema),) = reading.schemas
    assert schema is not None
    assert schema.key == ("id",)


def test_a_position_moves_on_without_events(postgresql: PostgreSQLServer, connection: DebeziumConnection) -> None:
    """Otherwise the server would keep the log of other tables' changes for ever."""
    position = drain(connection).position
    postgresql.sql("create table if not exists public.other (id int)", "insert into public.other values (1)")
    reading = drain(connection, position)
    assert [batch.count for batch in reading.batches] == [0] * len(reading.batches)
    assert reading.position != position
    confirmed = postgresql.sql(
        f"select confirmed_flush_lsn > '0/0'::pg_lsn + {_lsn(position)} from "
        f"pg_replication_slots where slot_name = '{connection.slot}'"
    )
    assert confirmed == "t"


def test_a_source_without_changes_is_confirmed_while_it_is_followed(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    """It is asked where its log ends, and the answer counts when reading has come there."""
    with opened(connection, thresholds=replace(SMALL, idle_seconds=0.5)) as transport:
        drained(transport)
        asked = datetime.now(timezone.utc)
        end = int(postgresql.sql("select pg_current_wal_lsn() - '0/0'::pg_lsn"))
        batches = transport.read_batches(until_drained=False)
        result = next(batch for batch in batches if batch.caught_up is not None and batch.caught_up > asked)
    assert result.count == 0
    assert _lsn(result.position) >= end


def _lsn(position: str) -> int:

    return int(json.loads(position)["reached"])


ROWS = 2_000
LONG = "n" * 5_000
"""More than the buffers on the way hold, so that a connection is lost inside of a transaction."""


def test_reading_continues_when_a_server_comes_back(
    postgresql: PostgreSQLServer, connection: DebeziumConnection, caplog: pytest.LogCaptureFixture
) -> None:
    at = connection.slot
    with opened(connection, thresholds=replace(SMALL, reconnect_poll_seconds=0.1)) as transport:
        drained(transport)
        postgresql.copy(f"{at}.a", [f"{i}\t{LONG}" for i in range(ROWS)])
        first = next(batch for batch in transport.read_batches(until_drained=False) if batch.count)
        postgresql.restart()
        postgresql.sql(f"insert into {at}.a values ({ROWS}, 'after')")
        rest = drained(transport)
    assert Reading([first, *rest.batches]).ids == list(range(ROWS + 1))
    assert "Reading goes on" in caplog.text
    lost = [batch for batch in rest.batches if batch.failure]
    assert [(batch.count, batch.caught_up) for batch in lost] == [(0, None)]
    assert "connection" in lost[0].failure


def test_close_ends_a_reader_that_waits(connection: DebeziumConnection) -> None:
    transport = DebeziumTransport(connection)
    transport.open_at(transport.initial)
    drained(transport)
    numbers: list[int] = []
    reader = threading.Thread(
        target=lambda: numbers.extend(batch.count for batch in transport.read_batches(until_drained=False))
    )
    reader.start()
    transport.close_source()
    transport.close_source()
    reader.join(60)
    assert not reader.is_alive()


def test_close_does_not_wait_for_batches_that_nobody_takes(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    postgresql.sql(f"insert into {connection.slot}.a select g, 'n' from generate_series(1, 5000) g")
    started = threading.Event()
    with opened(connection, thresholds=SMALL) as transport:
        next(transport.read_batches(until_drained=False))
        started.set()
    assert started.is_set()
    assert drain(connection, transport.initial).ids == list(range(1, 5001))


PASSWORD = "s3cret-of-the-test"


@pytest.fixture
def reader(postgresql: PostgreSQLServer, connection: DebeziumConnection) -> DebeziumConnection:
    """A connection by a user of its own, with a password and without further rights."""
    user = f"u_{connection.slot}"
    postgresql.sql(f"create role {user} login password '{PASSWORD}'")
    return replace(connection, user=user, password=PASSWORD)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"password": "wr0ng-password"}, r"the password of user u_\w+ is wrong"),
        ({"port": 1}, r"the server can't be reached"),
        ({"database": "nowhere"}, r"there is no database nowhere"),
        ({}, r"user u_\w+ has no right to replicate[\s\S]*alter role u_\w+ replication"),
    ],
)
def test_obstacles_are_reported_before_anything_is_created(
    reader: DebeziumConnection, change: dict[str, object], expected: str
) -> None:
    broken = replace(reader, **change)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=expected) as raised:
        DebeziumTransport(broken).check_source(None)
    assert f"{broken.host}:{broken.port}" in str(raised.value)
    assert broken.password not in f"{raised.value!r} {raised.value} {broken!r}"


def test_nothing_is_printed_and_no_log_has_the_password(
    postgresql: PostgreSQLServer,
    reader: DebeziumConnection,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("DEBUG")
    postgresql.sql(
        f"alter role {reader.user} replication",
        f"grant all on schema {reader.slot} to {reader.user}",
        f"alter table {reader.slot}.a owner to {reader.user}",
        f"alter table {reader.slot}.b owner to {reader.user}",
        f"grant create on database shop to {reader.user}",
    )
    drain(reader)
    postgresql.sql(f"alter role {reader.user} password 'another'")
    with pytest.raises(SourceError):
        DebeziumTransport(reader).check_source(None)
    assert capfd.readouterr() == ("", "")
    assert PASSWORD not in caplog.text
    assert PASSWORD not in Path("/proc/self/cmdline").read_text()


def test_a_table_that_does_not_exist_is_named(connection: DebeziumConnection) -> None:
    broken = replace(connection, tables=(f"{connection.slot}.aa",))
    with pytest.raises(SourceError, match=rf"there is no table {connection.slot}\.aa"):
        DebeziumTransport(broken).check_source(None)


def test_an_error_for_a_server_without_logical_log_names_the_setting() -> None:
    server = PostgreSQLServer(wal_level="replica")
    try:
        connection = DebeziumConnection("postgresql", "127.0.0.1", server.port, "shop", "postgres", "-", ("public.a",))
        with pytest.raises(SourceError, match=r"wal_level is replica, expected logical[\s\S]*alter system"):
            DebeziumTransport(connection).check_source(None)
    finally:
        server.remove()


def test_a_partitioned_table_is_read_where_its_changes_come_under_its_name(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    postgresql.sql(
        f"create table {at}.p (id int, day int, primary key (id, day)) partition by range (day)",
        f"create table {at}.p1 partition of {at}.p for values from (0) to (10)",
        f"insert into {at}.p values (1, 1)",
    )
    with pytest.raises(SourceError, match=rf"{at}\.p\.\s+what to do: [\s\S]*publish.via.partition.root: true"):
        DebeziumTransport(replace(connection, tables=(f"{at}.p",))).check_source(None)
    settings = {"publish.via.partition.root": "true"}
    whole = replace(connection, tables=(f"{at}.p",), properties=settings)
    assert [table.name for table in DebeziumTransport(whole).list_catalog() if table.schema == at] == ["a", "b", "p"]
    first = drain(whole)
    postgresql.sql(f"insert into {at}.p values (2, 2)")
    assert (first.ids, drain(whole, first.position).events[0][0]) == ([1], f"{at}.p")
    postgresql.sql(f"alter publication {at} set (publish_via_partition_root = false)")
    with pytest.raises(SourceError, match=rf"alter publication {at} set \(publish_via_partition_root = true\)"):
        DebeziumTransport(whole).check_source(first.position)


def test_a_table_that_others_inherit_from_is_read_alone(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    postgresql.sql(
        f"create table {at}.p (id int primary key)",
        f"create table {at}.c () inherits ({at}.p)",
        f"insert into {at}.p values (1)",
        f"insert into {at}.c values (2)",
    )
    inherited = replace(connection, tables=(f"{at}.p",))
    with pytest.raises(SourceError, match=rf"a snapshot of {at}\.p has the rows of {at}\.c too"):
        DebeziumTransport(inherited).check_source(None)
    selects = "snapshot.select.statement.overrides"
    settings = {selects: f"{at}.p", f"{selects}.{at}.p": f"select * from only {at}.p"}
    alone = replace(inherited, properties=settings)
    first = drain(alone)
    postgresql.sql(f"insert into {at}.c values (3)", f"insert into {at}.p values (4)")
    assert (first.ids, drain(alone, first.position).ids) == ([1], [4])


def test_a_slot_of_others_is_not_taken(postgresql: PostgreSQLServer, connection: DebeziumConnection) -> None:
    postgresql.sql(f"select pg_create_logical_replication_slot('{connection.slot}', 'pgoutput')")
    with pytest.raises(SourceError, match=rf"slot {connection.slot} exists, but this source was never ingested"):
        DebeziumTransport(connection).check_source(None)
    assert postgresql.sql(f"select 1 from pg_replication_slots where slot_name = '{connection.slot}'") == "1"


def test_a_lost_slot_is_an_error_and_no_silent_snapshot(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    position = drain(connection).position
    postgresql.sql(f"select pg_drop_replication_slot('{connection.slot}')")
    for attempt in (DebeziumTransport(connection).check_source, DebeziumTransport(connection).open_at):
        with pytest.raises(SourceError, match=rf"slot {connection.slot} is gone[\s\S]*arctic ingest --resync"):
            attempt(position)


def test_a_slot_that_was_recreated_is_an_error(postgresql: PostgreSQLServer, connection: DebeziumConnection) -> None:
    position = drain(connection).position
    postgresql.sql(
        f"select pg_drop_replication_slot('{connection.slot}')",
        f"insert into {connection.slot}.a values (1, 'lost')",
        f"select pg_create_logical_replication_slot('{connection.slot}', 'pgoutput')",
    )
    with pytest.raises(SourceError, match=r"recreated, or another reader moved it[\s\S]*arctic ingest --resync"):
        DebeziumTransport(connection).open_at(position)


def test_a_snapshot_that_did_not_finish_is_made_again(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    postgresql.sql(f"insert into {at}.a select g, 'n' from generate_series(1, 1000) g")
    with opened(connection, thresholds=SMALL) as transport:
        batch = next(transport.read_batches(until_drained=True))
        transport.acknowledge_batch(batch)
    assert batch.is_snapshot
    assert transport.begins_with_snapshot(batch.position)
    postgresql.sql(f"delete from {at}.a where id > 10")
    assert drain(connection, batch.position).ids == list(range(1, 11))


def test_a_second_reader_of_a_slot_is_informed_of_the_first(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    impatient = replace(SHIPPED.debezium, release_seconds=0.3)
    is_active = f"select active from pg_replication_slots where slot_name = '{connection.slot}'"
    with opened(connection) as transport:
        position = drained(transport).position
        until(lambda: postgresql.sql(is_active).strip() == "t")
        with pytest.raises(SourceError, match=rf"slot {connection.slot} is in use by process \d+"):
            DebeziumTransport(connection, impatient).open_at(position)
