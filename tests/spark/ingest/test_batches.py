"""Batches of change events become exact keyed tables: whatever the events are, and wherever a process dies."""

from __future__ import annotations

import contextlib
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import ConfigError, DataError, SourceError
from arctic_runtime.ingest.dead_letters.lease import SourceLease
from arctic_runtime.ingest.dead_letters.table import DeadLetterTable
from arctic_runtime.ingest.formats.debezium import UNAVAILABLE
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.job.reports import BatchReport
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.transport import Batch, TableEvents
from arctic_runtime.model.columns import Column, SchemaChange
from arctic_runtime.model.properties import LEASE, LEASE_UNTIL
from arctic_runtime.model.run_summary import RunSummary, run_commits
from arctic_runtime.model.sources.ingestion import ChangeSource, to_millis
from arctic_runtime.operations.inspect import read_history, read_status
from arctic_runtime.spark.refresh.overwrite import restore_version
from dbt.adapters.arctic.project.sources import list_ingested_models
from tests.spark.replay import ITEMS, ORDERS, Loading, Part, Replay, event, ingest, ingestion_of, move, source_of
from tests.spark.warehouse import Warehouse


class Died(Exception):
    """Stands for the end of the process."""


def rows(lake: Warehouse, name: str) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in lake.spark.table(lake.sql_name(name)).collect()}


@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_events_of_two_tables_become_rows_and_exact_changes(lake: Warehouse, merge: str) -> None:
    source = source_of(lake, "orders", "items", merge=merge)
    log = [
        [
            Part("public.orders", ORDERS, [event("r", None, {"id": 1, "item": "a", "n": 1})]),
            Part("public.items", ITEMS, [event("c", None, {"name": "a", "price": 1.25})]),
        ],
        [
            Part(
                "public.orders",
                ORDERS,
                [
                    event("u", {"id": 1, "item": "a", "n": 1}, {"id": 1, "item": "a", "n": 2}),
                    event("c", None, {"id": 2, "item": "b", "n": 7}),
                    event("c", None, {"id": 3, "item": "b", "n": 8}),
                    event("d", {"id": 3, "item": None, "n": None}, None),
                ],
            )
        ],
        [Part("public.orders", ORDERS, [event("d", {"id": 1, "item": None, "n": None}, None, at=5)])],
    ]
    transport = Replay(log)
    begun = datetime.now(timezone.utc)
    reports = ingest(lake, source, transport)
    assert rows(lake, "orders") == {(2, "b", 7)}
    assert rows(lake, "items") == {("a", Decimal("1.25"))}
    assert transport.acknowledged == ["1", "2", "3"]
    assert [(report.tables[0].read, report.tables[0].folded) for report in reports] == [(1, 0), (4, 2), (1, 0)]
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("id", "n", "_action", "_before.n")
    assert {tuple(row) for row in changes.collect()} == {
        (1, 1, "insert", None),
        (1, 2, "update", 1),
        (2, 7, "insert", None),
        (1, 2, "delete", 2),
    }
    progress = DeadLetterTable(source.dead_letter_table, lake.reader, lambda: lake.spark).read_progress()
    assert progress.position == "3"
    assert progress.caught_up is not None
    assert begun <= progress.caught_up + timedelta(milliseconds=1)
    assert progress.newest == datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)
    model = replace(source.tables[1].to_model(("name",)), source=ChangeSource(source.name, source.dead_letter_table))
    shown = read_status(lake.reader, model, []).ingestion
    assert shown is not None
    assert (shown.changed_at, shown.position, shown.source_position) == ("2023-11-14 22:13:20+00:00", "1", "3")


class Failing(Replay):
    """A replay whose source breaks in the place of one batch, and of which a look brings nothing before."""

    broken: int | None = None
    lost: str = ""

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        yield Batch((), self.opened, 0)
        for batch in super().read_batches(until_drained):
            if self.lost:
                yield Batch((), batch.position, 0, failure=self.lost)
            if int(batch.position) == self.broken:
                raise SourceError("db1 does not answer")
            yield batch


def test_an_error_of_a_source_stays_until_a_batch_has_succeeded(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    log = [
        [Part("public.orders", ORDERS, [event("c", None, {"id": n, "item": "a", "n": n}, 1000 * n)])] for n in (1, 2)
    ]
    ledger = DeadLetterTable(source.dead_letter_table, lake.reader, lambda: lake.spark)
    began = datetime.now(timezone.utc) - timedelta(milliseconds=1)
    since: set[Any] = set()
    for _ in range(2):
        transport = Failing(log)
        transport.broken = 2
        with pytest.raises(SourceError):
            ingest(lake, source, transport)
        failure = ledger.read_progress().failure
        assert failure is not None
        assert failure.message == "db1 does not answer"
        since.add(failure.since)
    assert len(since) == 1
    assert began <= since.pop() <= datetime.now(timezone.utc)
    lost = Failing(log)
    lost.lost = "the connection was lost"
    reports = ingest(lake, source, lost)
    assert [(report.count, report.progress.failure is None) for report in reports] == [
        (0, False),
        (0, False),
        (1, True),
    ]
    assert ledger.read_progress().failure is None
    assert rows(lake, "orders") == {(1, "a", 1), (2, "a", 2)}


def test_a_batch_is_reported_before_it_is_published_and_after(lake: Warehouse) -> None:
    source = source_of(lake, "orders", "items")
    read = [event("r", None, {"id": n, "item": "a", "n": n}) for n in range(3)]
    item = Part("public.items", ITEMS, [event("r", None, {"name": "a", "price": 1.25})])
    log = [
        [Part("public.orders", ORDERS, read)],
        [item],
        [Part("public.orders", ORDERS, [event("d", {"id": 1, "item": "a", "n": 1}, None)])],
    ]
    messages: list[str] = []
    ingestion_of(
        lake,
        source,
        Replay(log, snapshot=2),
        lambda report: messages.append(f"{report.count} published"),
        lambda work: messages.append(f"{work.describe_work()} to {', '.join(table.name for table in work.tables)}"),
    ).run(once=True)
    assert messages == [
        "3 events of a load, piece 1: table 1 of 2, 3 rows so far to orders",
        "3 published",
        "1 event of a load, piece 2: table 2 of 2, 4 rows so far to items",
        "1 published",
        "1 event to orders",
        "1 published",
    ]


@pytest.mark.in_turn
def test_status_counts_the_rows_that_readers_see_before_they_are_merged(lake: Warehouse) -> None:
    """Also where an event deletes a row that never was, and where a table has nothing but its key."""
    lake = lake.under(merge={"unmerged_share": 100.0})
    source = source_of(lake, "orders", "keys", merge="on_read")
    keys = SourceSchema((SourceColumn("id", "bigint"),), ("id",))

    def batch(*operations: tuple[str, int]) -> list[Part]:
        events = {
            "c": lambda n: (None, {"id": n}),
            "u": lambda n: ({"id": n}, {"id": n}),
            "d": lambda n: ({"id": n}, None),
        }
        rows = [(op, *events[op](n)) for op, n in operations]
        more = [
            (op, before, after and {**after, "item": "a", "n": place}) for place, (op, before, after) in enumerate(rows)
        ]
        return [
            Part("public.orders", ORDERS, [event(op, before, after) for op, before, after in more]),
            Part("public.keys", keys, [event(*row) for row in rows if row[0] != "u" and row[2] != {"id": 9}]),
        ]

    log = [
        batch(*(("c", n) for n in range(5))),
        batch(("d", 1), ("u", 2), ("c", 7)),
        batch(("c", 1), ("d", 3), ("d", 4)),
    ]
    log[1][0].texts.append(event("d", {"id": 9, "item": None, "n": None}, None))  # type: ignore[attr-defined]
    for end in range(1, 4):
        ingest(lake, source, Replay(log[:end]))
        for table in source.tables:
            status = read_status(lake.reader, table.to_model(("id",)), [])
            assert status.rows == lake.spark.table(lake.sql_name(table.name)).count(), (end, table.name)
            assert status.unmerged_commits == end - 1


def test_what_was_asked_in_vain_is_no_failure_of_the_source(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    with pytest.raises(ConfigError, match="gives no snapshot"):
        ingest(lake, source, Replay([]), ["orders"])
    assert DeadLetterTable(source.dead_letter_table, lake.reader, lambda: lake.spark).read_progress().failure is None


@pytest.mark.parametrize("key", [("id",), ()])
def test_a_commit_says_as_of_when_its_table_showed_the_source_before(lake: Warehouse, key: tuple[str, ...]) -> None:
    schema = replace(ORDERS, key=key)
    log = [
        [Part("public.orders", schema, [event("c", None, {"id": n, "item": "a", "n": n}, 1000 * n)])] for n in (1, 2)
    ]
    source = source_of(lake, "orders", primary_key=list(key) or None)
    ingest(lake, source, Replay(log[:1]))
    looked = DeadLetterTable(source.dead_letter_table, lake.reader, lambda: lake.spark).read_progress().as_of
    assert looked is not None
    ingest(lake, source, Replay(log))
    model = replace(source.tables[0].to_model(key), source=ChangeSource(source.name, source.dead_letter_table))
    log_of = observe_model(lake.reader, model).log
    assert log_of is not None
    shown = [RunSummary.decode(commit.summary).shown_before_ms for commit in run_commits(log_of) if commit.rows]
    assert shown == [None, to_millis(looked)]


def test_an_update_of_the_key_is_a_delete_and_an_insert(lake: Warehouse) -> None:
    first = Part(
        "public.orders", ORDERS, [event("c", None, {"id": number, "item": "a", "n": number}) for number in (1, 2)]
    )
    moved = [
        event("u", {"id": 1, "item": "a", "n": 1}, {"id": 5, "item": "a", "n": 1}),
        event("u", {"id": 2, "item": "a", "n": 2}, {"id": 1, "item": "b", "n": 2}),
    ]
    source = source_of(lake, "orders")
    ingest(lake, source, Replay([[first], [Part("public.orders", ORDERS, moved)]]))
    assert rows(lake, "orders") == {(5, "a", 1), (1, "b", 2)}
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("id", "_action", "_before.item")
    assert {tuple(row) for row in changes.collect() if row[0] != 1 or row[1] != "insert"} == {
        (2, "insert", None),
        (5, "insert", None),
        (1, "update", "a"),
        (2, "delete", "a"),
    }


def test_an_update_that_may_have_changed_a_chosen_key_is_a_dead_letter(lake: Warehouse) -> None:
    source = replace(source_of(lake, "orders", primary_key=["n"]), max_dead_letters=None)
    texts = [
        event("c", None, {"id": 1, "item": "a", "n": 1}),
        event("u", None, {"id": 1, "item": "b", "n": 2}),
        event("u", {"id": 1, "item": "a", "n": 1}, {"id": 1, "item": "c", "n": 3}),
    ]
    ingest(lake, source, Replay([[Part("public.orders", ORDERS, texts)]]))
    assert rows(lake, "orders") == {(1, "c", 3)}
    (dead,) = lake.spark.table(str(source.dead_letter_table)).select("reason").collect()
    assert "the row before the update was not sent" in dead.reason


def test_a_value_that_the_source_did_not_send_is_that_of_the_row(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    log = [
        [
            Part(
                "public.orders",
                ORDERS,
                [event("c", None, {"id": number, "item": f"long {number}", "n": 0}) for number in (1, 2)],
            )
        ],
        [
            Part(
                "public.orders",
                ORDERS,
                [
                    event("u", None, {"id": 1, "item": UNAVAILABLE, "n": 1}),
                    event("u", None, {"id": 2, "item": None, "n": 1}),
                    event("u", None, {"id": 2, "item": UNAVAILABLE, "n": 2}),
                    event("c", None, {"id": 3, "item": "new", "n": 1}),
                    event("u", None, {"id": 3, "item": UNAVAILABLE, "n": 2}),
                ],
            )
        ],
    ]
    ingest(lake, source, Replay(log))
    assert rows(lake, "orders") == {(1, "long 1", 1), (2, None, 2), (3, "new", 2)}


def test_a_value_that_is_nowhere_is_an_error_and_no_null(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    log = [
        [Part("public.orders", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 0})])],
        [Part("public.orders", ORDERS, [event("u", None, {"id": 2, "item": UNAVAILABLE, "n": 1})])],
    ]
    transport = Replay(log)
    with pytest.raises(DataError, match="value that its source did not send"):
        ingest(lake, source, transport)
    assert rows(lake, "orders") == {(1, "a", 0)}
    assert transport.acknowledged == ["1"]


def test_truncating_empties_the_table_and_later_rows_stay(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    log = [
        [
            Part(
                "public.orders",
                ORDERS,
                [event("c", None, {"id": number, "item": "a", "n": number}) for number in range(5)],
            )
        ],
        [
            Part(
                "public.orders",
                ORDERS,
                [
                    event("u", None, {"id": 1, "item": "b", "n": 9}),
                    event("t", None, None),
                    event("c", None, {"id": 2, "item": "c", "n": 2}),
                    event("u", None, {"id": 2, "item": UNAVAILABLE, "n": 3}),
                ],
            )
        ],
    ]
    ingest(lake, source, Replay(log))
    assert rows(lake, "orders") == {(2, "c", 3)}


@pytest.mark.in_turn
@pytest.mark.parametrize("deaths", [(1,), *(pytest.param(case, marks=pytest.mark.slow) for case in ((), (1, 1)))])
def test_a_row_that_moves_to_another_key_keeps_the_values_that_were_not_sent(
    lake: Warehouse, deaths: tuple[int, ...]
) -> None:
    """Row 1 moves twice, and row 3 takes a key that another row had before; the process may die in between."""
    lake = lake.under(ingest={"lease_seconds": 0})
    source = source_of(lake, "orders")
    moves = [
        *move({"id": 1}, {"id": 7, "item": UNAVAILABLE, "n": 1}, lsn=1),
        *move({"id": 7}, {"id": 8, "item": UNAVAILABLE, "n": 2}, lsn=2),
        event("u", None, {"id": 3, "item": "changed", "n": 3}),
        *move({"id": 3}, {"id": 1, "item": UNAVAILABLE, "n": 4}, lsn=3),
        event("u", None, {"id": 1, "item": UNAVAILABLE, "n": 5}),
        event("d", {"id": 2}, None),
    ]
    first = [event("c", None, {"id": number, "item": f"long {number}", "n": 0}) for number in (1, 2, 3)]
    log = [[Part("public.orders", ORDERS, first)], [Part("public.orders", ORDERS, moves)]]
    ingest(lake, source, Replay(log[:1]))
    for death in deaths:
        with set_failpoint(dies_after("commit.append", death)), pytest.raises(Died):
            ingest(lake, source, Replay(log))
    ingest(lake, source, Replay(log))
    assert rows(lake, "orders") == {(8, "long 1", 2), (1, "changed", 5)}
    assert lake.broken(source.tables[0].to_model(("id",))) == []
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("id", "n", "_action").collect()
    assert len(changes) == len(set(changes))


def dies_after(name: str, times: int) -> Callable[[str, Callable[[], Any]], Any]:
    """A failpoint at which the process dies when an effect has taken place so many times."""
    left = [times]

    def die(reached: str, action: Callable[[], Any]) -> Any:
        done = action()
        if reached == name:
            left[0] -= 1
            if left[0] == 0:
                raise Died(reached)
        return done

    return die


BAD = {
    "no UTF-8 text": b'{"op": "c", "after": {"id": 1, "item": "\xff\xfe", "n": 1}}',
    "not the JSON of an event": '{"op": "c", "after": {"id": 1,',
    "unknown operation x": event("x", None, {"id": 1, "item": "a", "n": 1}),
    "no operation": '{"after": {"id": 1, "item": "a", "n": 1}}',
    "primary key column id has no value": event("c", None, {"id": None, "item": "a", "n": 1}),
    "column n: the value does not fit int": event("c", None, {"id": 1, "item": "a", "n": 3_000_000_000}),
    "column id: the value does not fit bigint": event("c", None, {"id": "abc", "item": "a", "n": 3}),
}


def test_events_that_can_not_be_applied_are_kept_with_their_reason(lake: Warehouse) -> None:
    source = replace(source_of(lake, "orders"), max_dead_letters=None)
    good = event("c", None, {"id": 7, "item": "a", "n": 1})
    (report,) = ingest(
        lake, source, Replay([[Part("public.orders", ORDERS, [*map(as_bytes, BAD.values()), good.encode()])]])
    )
    (written,) = report.tables
    assert (written.read, written.applied, written.dead) == (len(BAD) + 1, 1, len(BAD))
    assert rows(lake, "orders") == {(7, "a", 1)}
    dead = lake.spark.table(str(source.dead_letter_table)).select("reason", "payload", "origin", "table").collect()
    assert {(row.reason, bytes(row.payload)) for row in dead} == {(why, as_bytes(value)) for why, value in BAD.items()}
    assert {row.table for row in dead} == {"public.orders"}


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def test_too_many_dead_letters_stop_ingestion_and_lose_nothing(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    log = [[Part("public.orders", ORDERS, ["{", event("c", None, {"id": 7, "item": "a", "n": 1})])]]
    for _ in range(2):
        with pytest.raises(DataError, match=r"shop__dead_letters: public.orders: not the JSON of an event \(1\)\n"):
            ingest(lake, source, Replay(log))
        assert rows(lake, "orders") == {(7, "a", 1)}
        assert lake.spark.table(str(source.dead_letter_table)).count() == 1


@pytest.mark.slow
def test_columns_of_a_source_may_be_called_as_parts_of_events_are(lake: Warehouse) -> None:
    names = (
        "origin",
        "payload",
        "arrival",
        "change",
        "reason",
        "table",
        "op",
        "before",
        "after",
        "value",
        "row",
        "step",
    )
    flights = SourceSchema(tuple(SourceColumn(name, "string") for name in names), ("origin", "arrival"))
    first, second, other = (dict.fromkeys(names, letter) | {"payload": letter * 2} for letter in "abc")
    log = [
        [Part("public.orders", flights, [event("c", None, first), event("c", None, other)])],
        [
            Part(
                "public.orders",
                flights,
                [
                    event("u", first, first | {"reason": "new"}),
                    event("c", None, second),
                    event("d", other, None),
                    event("u", second, second | {"origin": "moved"}),
                ],
            )
        ],
    ]
    ingest(lake, source_of(lake, "orders"), Replay(log))
    expected = (first | {"reason": "new"}, second | {"origin": "moved"})
    assert rows(lake, "orders") == {tuple(row.values()) for row in expected}


def test_a_column_that_the_source_adds_is_added_and_one_that_widens_is_widened(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    wider = SourceSchema(
        (SourceColumn("id", "bigint"), SourceColumn("n", "bigint"), SourceColumn("more", "string")), ("id",)
    )
    log = [
        [Part("public.orders", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 1})])],
        [
            Part("public.orders", ORDERS, [event("c", None, {"id": 2, "item": "b", "n": 1})]),
            Part("public.orders", wider, [event("u", None, {"id": 1, "n": 5_000_000_000, "more": "x"})]),
        ],
    ]
    ingest(lake, source, Replay(log))
    assert rows(lake, "orders") == {(1, "a", 5_000_000_000, "x"), (2, "b", 1, None)}
    newest, *older = read_history(lake.reader, source.tables[0].to_model(("id",)))
    assert newest.columns == SchemaChange(add=(Column("more", "string"),), widen=(Column("n", "bigint"),))
    assert [entry.columns.is_empty for entry in older] == [True] * len(older)


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [True, False])
def test_a_process_that_dies_at_any_effect_loses_and_repeats_nothing(lake: Warehouse, is_done: bool) -> None:
    """Each name of an effect is a place of death once, after the effect or before it; the next process goes on."""
    lake = lake.under(ingest={"lease_seconds": 0})
    source = replace(source_of(lake, "orders", "items"), max_dead_letters=None)
    log = [
        [
            Part(
                "public.orders",
                ORDERS,
                [event("c", None, {"id": number, "item": f"{n}", "n": n}) for number in range(4)],
            ),
            Part("public.items", ITEMS, [event("u", None, {"name": f"{n % 2}", "price": n}), f"broken {n}"]),
        ]
        for n in range(4)
    ]
    died: set[str] = set()

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action() if is_done else None
        if name not in died:
            died.add(name)
            raise Died(name)
        return done if is_done else action()

    with set_failpoint(dying):
        for _ in range(40):
            with contextlib.suppress(Died):
                ingest(lake, source, Replay(log))
                break
    assert {"commit.publish", "ingest.advance", "ingest.append_dead_letters", "view.replace"} <= died
    assert rows(lake, "orders") == {(number, "3", 3) for number in range(4)}
    assert rows(lake, "items") == {("0", Decimal(2)), ("1", Decimal(3))}
    changes = lake.spark.table(lake.sql_name("orders__changes")).groupBy("id", "n").count().collect()
    assert {(row.id, row.n, row["count"]) for row in changes} == {
        (number, n, 1) for number in range(4) for n in range(4)
    }
    assert lake.spark.table(str(source.dead_letter_table)).count() == 4


def test_one_process_at_a_time_ingests_a_source(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    ledger = DeadLetterTable(source.dead_letter_table, lake.reader, lambda: lake.spark)
    ledger.create_or_widen()
    reader = lake.under(ingest={"lease_renewal_seconds": 0}).reader
    first, second = (SourceLease(source.dead_letter_table, reader, lambda: lake.spark) for _ in range(2))
    assert first.take_lease() is None
    other = second.take_lease()
    assert other is not None
    assert other.holder == first.holder
    log = [[Part("public.orders", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 1})])]]
    with pytest.raises(ConfigError, match="another process ingests this source"):
        ingest(lake, source, Replay(log))
    first.end_lease()
    assert second.take_lease() is None
    with pytest.raises(ConfigError, match="another process"):
        first.renew_lease()
    second.end_lease()
    ingest(lake, source, Replay(log))
    assert rows(lake, "orders") == {(1, "a", 1)}


class Idle(Replay):
    """A source that has no events until `is_over`, or the process is told to stop."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        super().__init__([])
        self.closed = threading.Event()
        self.is_over = is_over

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        until = time.monotonic() + 60
        while not self.closed.wait(0.1) and not self.is_over():
            assert time.monotonic() < until
        yield from super().read_batches(until_drained)

    def close_source(self) -> None:
        self.closed.set()


def lease_of(lake: Warehouse, source: IngestSource) -> tuple[str | None, int]:
    """Who has the lease on a source, and until when."""
    properties = lake.reader.load_table(source.dead_letter_table.schema, source.dead_letter_table.name).properties
    return properties.get(LEASE), int(properties.get(LEASE_UNTIL) or 0)


def test_a_process_keeps_its_lease_while_its_source_has_no_events(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    seen: set[tuple[str | None, int]] = set()

    def is_renewed() -> bool:
        seen.add(lease_of(lake, source))
        return len(seen) > 2

    ingest(lake.under(ingest={"lease_renewal_seconds": 0.1}), source, Idle(is_renewed))
    assert len({holder for holder, _ in seen}) == 1
    assert len(lake.reader.load_table(source.dead_letter_table.schema, source.dead_letter_table.name).snapshots()) == 1


def test_a_process_that_waits_for_events_ends_when_another_takes_over(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    other = SourceLease(source.dead_letter_table, lake.reader, lambda: lake.spark)

    def is_over() -> bool:
        if lease_of(lake, source)[0] != other.holder:
            assert other.take_lease() is None
        return False

    slow = lake.under(ingest={"lease_seconds": 0, "lease_renewal_seconds": 0.5})
    with pytest.raises(ConfigError, match="another process ingests this source"):
        ingest(slow, source, Idle(is_over))
    assert lease_of(lake, source)[0] == other.holder


def test_the_lease_of_a_process_that_was_killed_is_taken_at_once(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    DeadLetterTable(source.dead_letter_table, lake.reader, lambda: lake.spark).create_or_widen()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    killed = SourceLease(source.dead_letter_table, lake.reader, lambda: lake.spark, f"{platform.node()}:{ended.pid}:1")
    assert killed.take_lease() is None
    assert SourceLease(source.dead_letter_table, lake.reader, lambda: lake.spark).take_lease() is None


@pytest.mark.slow
def test_a_process_that_lost_its_lease_writes_nothing_twice(lake: Warehouse) -> None:
    """It goes on with a batch that its successor has published already."""
    source = source_of(lake, "orders")
    batch = [Part("public.orders", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 1})])]
    later = [Part("public.orders", ORDERS, [event("u", None, {"id": 1, "item": "b", "n": 2})])]

    class Overtaken(Replay):
        def read_batches(self, until_drained: bool) -> Iterator[Batch]:
            for one in super().read_batches(until_drained):
                if one.position == "2":
                    ingest(lake.under(ingest={"lease_seconds": 0}), source, Replay([batch, later, later]))
                yield one

    slow = lake.under(ingest={"lease_seconds": 0, "lease_renewal_seconds": 3600})
    ingest(slow, source, Overtaken([batch, later]))
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("_action", "n").collect()
    assert sorted((row[0], row[1]) for row in changes) == [("insert", 1), ("update", 2)]


@pytest.mark.in_turn
def test_a_process_that_is_overtaken_in_the_middle_of_a_batch_writes_nothing_twice(lake: Warehouse) -> None:
    """Another one publishes the batch, and one after it, when this one has seen which events the table has."""
    lake = lake.under(ingest={"lease_seconds": 0})
    source = source_of(lake, "orders")
    log = [
        [Part("public.orders", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 1})])],
        [Part("public.orders", ORDERS, [event("u", None, {"id": 1, "item": "b", "n": 2})])],
        [Part("public.orders", ORDERS, [event("u", None, {"id": 1, "item": "c", "n": 3})])],
    ]
    ingest(lake, source, Replay(log[:1]))

    class Overtaken(Replay):
        overtaken = False

        def select_after(self, events: TableEvents, position: str) -> TableEvents:
            if not self.overtaken:
                self.overtaken = True
                ingest(lake, source, Replay(log))
            return super().select_after(events, position)

    slow = lake.under(ingest={"lease_seconds": 0, "lease_renewal_seconds": 3600})
    ingest(slow, source, Overtaken(log[:2]))
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("_action", "n").collect()
    assert sorted((row[0], row[1]) for row in changes) == [("insert", 1), ("update", 2), ("update", 3)]


@pytest.mark.slow
def test_a_process_that_is_overtaken_when_it_has_added_a_column_writes_nothing_twice(lake: Warehouse) -> None:
    """Another one publishes the batch, and one after it, right after the last column of both tables was added."""
    lake = lake.under(ingest={"lease_seconds": 0, "lease_renewal_seconds": 3600})
    wider = SourceSchema((*ORDERS.columns, SourceColumn("more", "string")), ("id",))

    def log(table: str) -> list[list[Part]]:
        return [
            [Part(f"public.{table}", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 1})])],
            [Part(f"public.{table}", wider, [event("u", None, {"id": 1, "item": "b", "n": 2, "more": "x"})])],
            [Part(f"public.{table}", wider, [event("u", None, {"id": 1, "item": "c", "n": 3, "more": "y"})])],
        ]

    def evolving(table: str, at: int) -> int:
        """Ingests the second batch of a table, and all batches after so many changes of columns; returns how many."""
        source = replace(source_of(lake, table), dead_letter_table=lake.table(f"{table}__dead_letters"))
        ingest(lake, source, Replay(log(table)[:1]))
        evolved = 0

        def overtake(name: str, action: Callable[[], Any]) -> Any:
            nonlocal evolved
            done = action()
            evolved += name == "schema.evolve"
            if name == "schema.evolve" and evolved == at:
                ingest(lake, source, Replay(log(table)))
            return done

        with set_failpoint(overtake):
            ingest(lake, source, Replay(log(table)[:2]))
        return evolved

    last = evolving("items", 0)
    assert evolving("orders", last) == last
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("_action", "n").collect()
    assert sorted((row[0], row[1]) for row in changes) == [("insert", 1), ("update", 2), ("update", 3)]


@pytest.mark.slow
def test_rows_of_a_large_table_are_looked_up_by_their_keys(lake: Warehouse) -> None:
    """As of tables with more rows than a lookup reads all of."""
    lake = lake.under(pruning={"scanned_table_rows": 0, "scanned_table_ratio": 0})
    source = source_of(lake, "orders")
    first = [event("c", None, {"id": number, "item": f"long {number}", "n": number}) for number in range(50)]
    later = [
        event("u", None, {"id": 7, "item": "b", "n": 1}),
        event("u", {"id": 8, "item": "long 8", "n": 8}, {"id": 60, "item": "long 8", "n": 8}),
        *move({"id": 9}, {"id": 61, "item": UNAVAILABLE, "n": 9}, lsn=1),
    ]
    ingest(lake, source, Replay([[Part("public.orders", ORDERS, events)] for events in (first, later)]))
    expected = {(number, f"long {number}", number) for number in range(50) if number not in (7, 8, 9)}
    assert rows(lake, "orders") == expected | {(7, "b", 1), (60, "long 8", 8), (61, "long 9", 9)}
    assert lake.broken(source.tables[0].to_model(("id",))) == []


@pytest.mark.slow
def test_an_ingested_table_is_verified_and_restored_like_any_other(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    log = [
        [Part("public.orders", ORDERS, [event("c", None, {"id": number, "item": "a", "n": 1}) for number in range(3)])],
        [
            Part(
                "public.orders", ORDERS, [event("d", {"id": 1}, None), event("u", None, {"id": 2, "item": "b", "n": 2})]
            )
        ],
    ]
    ingest(lake, source, Replay(log[:1]))
    model = source.tables[0].to_model(("id",))
    first = lake.state(model).changes
    ingest(lake, source, Replay(log))
    assert lake.broken(model) == []
    assert first is not None
    assert first.head is not None
    restore_version(lake.session_of(model), first.head.snapshot)
    assert rows(lake, "orders") == {(number, "a", 1) for number in range(3)}
    ingest(lake, source, Replay(log))
    assert rows(lake, "orders") == {(number, "a", 1) for number in range(3)}
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_a_model_follows_an_ingested_table(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    log = [
        [
            Part(
                "public.orders",
                ORDERS,
                [event("c", None, {"id": number, "item": "ab"[number % 2], "n": number}) for number in range(6)],
            )
        ],
        [
            Part(
                "public.orders", ORDERS, [event("d", {"id": 0}, None), event("u", None, {"id": 1, "item": "a", "n": 7})]
            )
        ],
    ]
    ingest(lake, source, Replay(log[:1]))
    model = lake.model(
        "totals", "select item, sum(n) as n from {orders} group by item", primary_key="item", refresh="strict"
    )
    happened = lake.model("happened", "select id, n from {changes(orders)}", primary_key="id", input="changes")
    lake.run(model)
    lake.run(happened)
    ingest(lake, source, Replay(log))
    assert lake.run(model).mode == "incremental"
    assert rows(lake, "totals") == {("a", 13), ("b", 8)}
    assert lake.broken(model) == []
    lake.run(happened)
    assert (1, 7) in rows(lake, "happened")


@pytest.mark.in_turn
def test_a_snapshot_that_was_interrupted_is_made_again_and_rows_that_are_gone_are_deleted(lake: Warehouse) -> None:
    source = source_of(lake, "orders", "items")
    first = [event("r", None, {"id": number, "item": "a", "n": number}) for number in range(4)]
    other = Part("public.items", ITEMS, [event("r", None, {"name": "a", "price": 1})])
    ingest(lake, source, Replay([[Part("public.orders", ORDERS, first), other]], snapshot=3))
    again = [
        [Part("public.orders", ORDERS, [event("r", None, {"id": 1, "item": "a", "n": 1})])],
        [Part("public.orders", ORDERS, [event("r", None, {"id": 2, "item": "b", "n": 2})])],
        [
            Part(
                "public.orders",
                ORDERS,
                [
                    event("r", None, {"id": 9, "item": "c", "n": 9}),
                    event("u", None, {"id": 9, "item": "d", "n": 9}),
                    event("d", {"id": 1}, None),
                ],
            )
        ],
    ]
    ingest(lake, source, Replay(again[:2], snapshot=3))
    assert len(rows(lake, "orders")) == 4
    ingest(lake, source, Replay(again, snapshot=3))
    assert rows(lake, "orders") == {(2, "b", 2), (9, "d", 9)}
    assert rows(lake, "items") == set()
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("id", "_action", "_before.item").collect()
    assert sorted(tuple(row) for row in changes if row[1] != "insert") == [
        (0, "delete", "a"),
        (1, "delete", "a"),
        (2, "update", "a"),
        (3, "delete", "a"),
        (9, "update", "c"),
    ]
    assert not {name for name in lake.reader.list_relations(lake.namespace) if name.endswith("__snapshot")}


def read(name: str, price: int) -> str:
    return event("r", None, {"name": name, "price": price})


def priced(op: str, name: str, price: int) -> Part:
    return Part("public.items", ITEMS, [event(op, None, {"name": name, "price": price})])


FIRST = [Part("public.orders", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 1})])]
NOTHING = SourceSchema((SourceColumn("id", "bigint"), SourceColumn("at", "timestamp")), ("id",))


@pytest.mark.in_turn
@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_table_that_is_declared_later_is_loaded_and_followed_from_there(lake: Warehouse, is_killed: bool) -> None:
    """Events that its rows have already are left out, wherever the process dies; one without rows is there too."""
    lake = lake.under(ingest={"lease_seconds": 0})
    died: set[str] = set()

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        if is_killed and name not in died:
            died.add(name)
            raise Died(name)
        return done

    ingest(lake, source_of(lake, "orders"), Replay([FIRST]))
    rows_now = {
        "public.items": Part("public.items", ITEMS, [read("a", 2), read("b", 1)]),
        "public.nothing": Part("public.nothing", NOTHING, []),
    }
    log = [
        FIRST,
        [priced("c", "a", 1)],
        [priced("u", "a", 2), priced("c", "b", 1)],
        [priced("u", "b", 3), *FIRST],
        [Part("public.nothing", NOTHING, [event("c", None, {"id": 1, "at": None})])],
    ]
    source = source_of(lake, "orders", "items", "nothing")
    transport = Loading(log[:3], rows=rows_now, at="3")
    with set_failpoint(dying):
        for _ in range(40):
            with contextlib.suppress(Died):
                ingest(lake, source, transport)
                break
    assert not is_killed or {"ingest.stage", "ingest.drop_stage", "ingest.advance", "commit.publish"} <= died
    assert rows(lake, "items") == {("a", Decimal(2)), ("b", Decimal(1))}
    assert rows(lake, "nothing") == set()
    later = Loading(log)
    ingest(lake, source, later)
    assert later.loaded == []
    assert rows(lake, "items") == {("a", Decimal(2)), ("b", Decimal(3))}
    assert rows(lake, "nothing") == {(1, None)}
    changes = lake.spark.table(lake.sql_name("items__changes")).select("name", "price", "_action").collect()
    assert sorted((*row,) for row in changes) == [
        ("a", Decimal(2), "insert"),
        ("b", Decimal(1), "insert"),
        ("b", Decimal(3), "update"),
    ]
    for table, key in zip(source.tables, ("id", "name", "id"), strict=True):
        assert lake.broken(table.to_model((key,))) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_other_tables_are_written_while_one_is_loaded(lake: Warehouse, is_killed: bool) -> None:
    """The load ends only after that. What has changed since its snapshot is in it, and the stream goes on from there.

    So it is wherever the process dies, in the stream or in the load.
    """
    lake = lake.under(ingest={"lease_seconds": 0})
    died: set[str] = set()

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        thread = "load" if threading.current_thread().name.startswith("load") else "stream"
        if is_killed and (place := f"{name} of the {thread}") not in died:
            died.add(place)
            raise Died(place)
        return done

    ingest(lake, source_of(lake, "orders"), Replay([FIRST]))
    source = replace(source_of(lake, "orders", "items"), trigger_seconds=0)
    ordered = [
        [Part("public.orders", ORDERS, [event("c", None, {"id": number, "item": "a", "n": number})])]
        for number in (2, 3)
    ]
    log = [FIRST, [priced("c", "a", 1)], *ordered, [priced("u", "a", 2), priced("c", "b", 1)], [priced("u", "b", 3)]]

    def attempt() -> None:
        snapshot = {"public.items": Part("public.items", ITEMS, [read("a", 1), read("c", 7)])}
        transport = Loading(log[:5], rows=snapshot, at="2")

        def report(batch: BatchReport) -> None:
            if int(batch.progress.position or 0) >= 4:
                transport.log = log[:5]
                transport.is_ready.set()
            if "public.items" in transport.followed[-1]:
                job.stop()

        job = ingestion_of(lake, source, transport, report)
        transport.log = log[:4]
        job.run(once=False)
        assert transport.followed[-1] == {"public.orders", "public.items"}

    with set_failpoint(dying):
        for _ in range(40):
            with contextlib.suppress(Died):
                attempt()
                break
    places = {"ingest.stage of the load", "commit.publish of the load", "ingest.advance of the stream"}
    assert not is_killed or places <= died
    assert rows(lake, "orders") == {(1, "a", 1), (2, "a", 2), (3, "a", 3)}
    assert rows(lake, "items") == {("a", Decimal(2)), ("b", Decimal(1)), ("c", Decimal(7))}
    ingest(lake, source, Loading(log))
    assert rows(lake, "items") == {("a", Decimal(2)), ("b", Decimal(3)), ("c", Decimal(7))}
    changes = lake.spark.table(lake.sql_name("items__changes")).select("name", "price", "_action").collect()
    exact = [("a", 1, "insert"), ("a", 2, "update"), ("b", 1, "insert"), ("b", 3, "update"), ("c", 7, "insert")]
    assert is_killed or sorted((*row,) for row in changes) == exact
    for table, key in zip(source.tables, ("id", "name"), strict=True):
        assert lake.broken(table.to_model((key,))) == []


@pytest.mark.slow
def test_one_table_is_loaded_again_and_gets_what_differs(lake: Warehouse) -> None:
    """So does a table that was left out meanwhile: its events of then never came."""
    both, one = source_of(lake, "orders", "items"), source_of(lake, "orders")
    ingest(lake, both, Replay([[*FIRST, priced("c", "a", 1), priced("c", "b", 1)]]))
    again = Loading([FIRST, FIRST], rows={"public.items": Part("public.items", ITEMS, [read("a", 1), read("c", 1)])})
    ingest(lake, both, replace(again, at="2"), tables=["items"])
    assert rows(lake, "items") == {("a", Decimal(1)), ("c", Decimal(1))}
    ingest(lake, one, Replay([FIRST, FIRST, [priced("d", "c", 1)]][:2]))
    emptied = Part("public.items", ITEMS, [])
    back = Loading([FIRST, FIRST, FIRST], rows={"public.items": emptied}, at="3")
    ingest(lake, both, back)
    assert back.loaded == ["public.items"]
    assert rows(lake, "items") == set()
    changes = lake.spark.table(lake.sql_name("items__changes")).groupBy("_action").count().collect()
    assert {row[0]: row[1] for row in changes} == {"insert": 3, "delete": 3}


def test_without_snapshots_a_resync_is_refused(lake: Warehouse) -> None:
    with pytest.raises(ConfigError, match="gives no snapshot to resync by"):
        ingest(lake, source_of(lake, "orders"), Replay([FIRST]), tables=["orders"])
    with pytest.raises(ConfigError, match=r"no table order to resync .did you mean 'orders'"):
        ingest(lake, source_of(lake, "orders"), Loading([FIRST]), tables=["order"])


@pytest.mark.slow
def test_events_that_come_again_in_one_run_are_left_out(lake: Warehouse) -> None:
    class Rewound(Replay):
        def read_batches(self, until_drained: bool) -> Iterator[Batch]:
            yield from super().read_batches(until_drained)
            yield Batch((), "1", 0, is_rewound=True)
            self.opened = "1"
            yield from super().read_batches(until_drained)

    log = [[priced("c", "a", 1)], [priced("u", "a", 2)], [priced("u", "a", 3)]]
    ingest(lake, source_of(lake, "items"), Rewound(log))
    assert lake.spark.table(lake.sql_name("items__changes")).count() == 3


@pytest.mark.slow
def test_tables_that_a_source_includes_are_loaded_when_they_are_there(lake: Warehouse) -> None:
    """At the start, and while ingestion goes on; they are followed and known to operations as declared ones are."""
    lake = lake.under(ingest={"look_seconds": 0})
    source = replace(source_of(lake, "orders"), include=("public.it*", "public.orders", "public.n*"), trigger_seconds=0)
    items = {"public.items": Part("public.items", ITEMS, [read("a", 1)])}
    log = [[*FIRST, priced("c", "b", 1)], FIRST, [priced("u", "a", 2)]]
    first = Loading(log[:1], tables=["orders", "items", "people"])
    ingest(lake, source, first)
    both = {"public.orders", "public.items"}
    assert (first.loaded, first.followed[-1], rows(lake, "items")) == ([], both, {("b", Decimal(1))})
    nothing = {"public.nothing": Part("public.nothing", NOTHING, [])}
    made = Loading(log, rows={**items, **nothing}, at="3", tables=["orders"])
    made.is_ready.set()

    def report(batch: BatchReport) -> None:
        """A table is made after the first batch; all ends when the stream has it."""
        made.tables = ["orders", "items", "nothing"]
        if "public.nothing" in made.followed[-1]:
            job.stop()

    job = ingestion_of(lake, source, made, report)
    job.run(once=False)
    assert made.loaded == ["public.nothing"]
    assert made.followed[-1] == {*both, "public.nothing"}
    assert rows(lake, "nothing") == set()
    models = list_ingested_models([source], lake.reader)
    assert sorted(model.table.name for model in models) == ["items", "nothing", "orders"]
