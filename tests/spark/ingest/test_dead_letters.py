"""Events that could not be applied are applied later, once, and never over a row that is newer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.table import Table

from arctic_runtime.catalog.lease import Held
from arctic_runtime.effects import set_failpoint
from arctic_runtime.ingest.dead_letters.replay import Replayed, replay_dead_letters
from arctic_runtime.ingest.formats.debezium import UNAVAILABLE, build_debezium_format
from arctic_runtime.ingest.formats.event_format import Format
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.model.run_summary import find_last_run
from tests.spark.replay import ORDERS, Part, Replay, event, ingest, source_of
from tests.spark.warehouse import Warehouse

LARGE = 3_000_000_000
"""Fits no int."""


class Died(Exception):
    """Stands for the end of the process."""


def orders(lake: Warehouse, n: str = "int") -> IngestSource:
    """A source whose user declares the columns of its table."""
    source = replace(source_of(lake, "orders", primary_key=["id"]), max_dead_letters=None)
    (table,) = source.tables
    return replace(source, tables=(replace(table, columns={"id": "bigint", "item": "string", "n": n}),))


def put(op: str, key: int, item: str | None, n: Any) -> str:
    return event(op, None, {"id": key, "item": item, "n": n})


def batch(*texts: str | bytes) -> list[Part]:
    return [Part("public.orders", None, texts)]


def replay_dead(lake: Warehouse, source: IngestSource, form: Format | None = None) -> list[Replayed]:
    return list(replay_dead_letters(source, form or build_debezium_format(), lake.reader, lake.environment.new_session))


def fates(done: list[Replayed]) -> tuple[int, int, int, int]:
    (report,) = done
    return report.read, report.applied, report.superseded, report.dead


def rows(lake: Warehouse) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in lake.spark.table(lake.sql_name("orders")).collect()}


def reasons(lake: Warehouse, source: IngestSource) -> list[str]:
    return sorted(row.reason for row in lake.spark.table(str(source.dead_letter_table)).select("reason").collect())


@pytest.mark.slow
def test_events_that_fit_now_are_applied_unless_their_row_is_newer(lake: Warehouse) -> None:
    """Row 1 is not there, 2 is followed in its batch and 3 in another, 4 follows in its batch, 5 is deleted later."""
    source = orders(lake)
    log = [
        batch(*[put("c", key, "old", key) for key in (2, 3, 4, 5, 6)]),
        batch(
            put("c", 1, "a", LARGE),
            put("u", 2, "a", LARGE),
            put("u", 2, "b", 2),
            put("u", 3, "a", LARGE),
            put("u", 4, "a", 4),
            put("u", 4, "b", LARGE),
            put("u", 5, "a", LARGE),
            put("u", 6, "a", "none"),
            "{",
        ),
        batch(put("u", 3, "b", 3), event("d", {"id": 5}, None)),
    ]
    ingest(lake, source, Replay(log))
    mended = orders(lake, "bigint")
    before = find_last_run(lake.state(source.tables[0].to_model(("id",))).changes)
    (done,) = replay_dead(lake, mended)
    assert (done.read, done.applied, done.superseded, done.dead) == (7, 2, 3, 2)
    assert done.rows == {"insert": 1, "update": 1}
    expected = {(1, "a", LARGE), (2, "b", 2), (3, "b", 3), (4, "b", LARGE), (6, "old", 6)}
    assert rows(lake) == expected
    assert reasons(lake, source) == ["column n: the value does not fit bigint", "not the JSON of an event"]
    model = source.tables[0].to_model(("id",))
    assert lake.broken(model) == []
    after = find_last_run(lake.state(model).changes)
    assert before is not None
    assert after is not None
    assert (after.position, after.reason) == (before.position, "REPLAYED")
    assert fates(replay_dead(lake, mended)) == (2, 0, 0, 2)
    (report,) = ingest(lake, mended, Replay([*log, batch(put("u", 1, "c", 1))]))
    assert report.count == 1
    assert rows(lake) == expected - {(1, "a", LARGE)} | {(1, "c", 1)}


@pytest.mark.slow
def test_a_later_event_that_changed_nothing_is_newer(lake: Warehouse) -> None:
    """Row 1 gets the values that it has, 2 and 3 are deleted before they are there, and 4 is followed in its batch."""
    source = orders(lake)
    late = event("x", None, {"id": 4, "item": "old", "n": 4})
    log = [
        batch(put("c", 1, "old", 1), put("c", 4, "old", 4)),
        batch(put("u", 1, "a", LARGE), put("c", 2, "a", LARGE), put("c", 3, "a", LARGE), event("d", {"id": 3}, None)),
        batch(put("u", 1, "old", 1), event("d", {"id": 2}, None)),
        batch(late, put("u", 4, "old", LARGE), put("u", 4, "old", 4)),
    ]
    ingest(lake, source, Replay(log))
    mended = orders(lake, "bigint")
    assert fates(replay_dead(lake, mended)) == (5, 0, 4, 1)
    assert rows(lake) == {(1, "old", 1), (4, "old", 4)}
    assert lake.broken(source.tables[0].to_model(("id",))) == []


@pytest.mark.slow
def test_a_replay_gives_signs_of_life_while_a_table_is_under_way(lake: Warehouse) -> None:
    source = orders(lake)
    ingest(lake, source, Replay([batch(put("c", 1, "a", LARGE))]))
    often = lake.under(ingest={"lease_renewal_seconds": 0.1}).reader
    replayed = replay_dead_letters(orders(lake, "bigint"), build_debezium_format(), often, lake.environment.new_session)
    assert next(replayed).applied == 1
    ledger = often.load_table(source.dead_letter_table.schema, source.dead_letter_table.name)
    ends = {lease.until for _ in range(2) if (lease := next_lease(ledger)) is not None}
    assert len(ends) == 2
    assert list(replayed) == []


def next_lease(ledger: Table) -> Held | None:
    """The lease in a table, once it has another metadata file."""
    before = ledger.metadata_location
    while ledger.refresh().metadata_location == before:
        time.sleep(0.05)
    return Held.decode(ledger.properties)


@pytest.mark.slow
def test_a_later_event_without_all_values_is_newer_only_in_those_that_it_has(lake: Warehouse) -> None:
    source = orders(lake)
    log = [
        batch(*[put("c", key, "old", key) for key in range(1, 6)]),
        batch(*[put("u", key, "new", LARGE) for key in (1, 2, 3)], put("u", 4, UNAVAILABLE, LARGE)),
        batch(
            put("u", 1, UNAVAILABLE, 10),
            put("u", 2, "newer", 20),
            put("u", 3, "new", 30),
            put("u", 3, UNAVAILABLE, 31),
            put("u", 4, UNAVAILABLE, 40),
        ),
        batch(put("c", 7, UNAVAILABLE, LARGE), put("u", 8, UNAVAILABLE, LARGE), put("u", 5, UNAVAILABLE, LARGE)),
    ]
    ingest(lake, source, Replay(log))
    assert fates(replay_dead(lake, orders(lake, "bigint"))) == (7, 1, 3, 3)
    assert rows(lake) == {(1, "old", 10), (2, "newer", 20), (3, "new", 31), (4, "old", 40), (5, "old", LARGE)}
    assert [reason.split(":")[0] for reason in reasons(lake, source)] == [
        "it lacks a value that no row of the table has",
        "it lacks a value that no row of the table has",
        "its row has changed since by an event without all values",
    ]


@pytest.mark.slow
def test_dead_letters_that_are_repaired_one_after_the_other_keep_their_order(lake: Warehouse) -> None:
    source = orders(lake)
    first = event("x", None, {"id": 1, "item": "first", "n": 1})
    late = event("x", None, {"id": 2, "item": "last", "n": 1})
    log = [
        batch(put("c", 1, "old", 0), put("c", 2, "old", 0)),
        batch(first, put("u", 2, "middle", LARGE)),
        batch(put("u", 1, "last", LARGE), late),
    ]
    ingest(lake, source, Replay(log))
    mended = orders(lake, "bigint")
    assert fates(replay_dead(lake, mended)) == (4, 2, 0, 2)
    assert rows(lake) == {(1, "last", LARGE), (2, "middle", LARGE)}
    known = build_debezium_format()
    form = replace(known, events=replace(known.events, changes={**known.events.changes, "x": "update"}))
    assert fates(replay_dead(lake, mended, form)) == (2, 1, 1, 0)
    assert rows(lake) == {(1, "last", LARGE), (2, "last", 1)}
    assert replay_dead(lake, mended, form) == []


@pytest.mark.slow
def test_a_process_that_dies_at_any_effect_applies_dead_letters_once(lake: Warehouse) -> None:
    lake = lake.under(ingest={"lease_seconds": 0})
    died: set[str] = set()
    source, mended = orders(lake), orders(lake, "bigint")
    log = [
        batch(put("c", 1, "old", 1), put("c", 2, "old", 2)),
        batch(put("u", 1, "a", LARGE), put("u", 1, "b", LARGE), put("c", 3, "c", LARGE), "{"),
    ]

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        if name not in died:
            died.add(name)
            raise Died(name)
        return done

    ingest(lake, source, Replay(log))
    applied = 0
    with set_failpoint(dying):
        for _ in range(20):
            with contextlib.suppress(Died):
                applied = sum(report.applied for report in replay_dead(lake, mended))
                break
    assert {"commit.publish", "ingest.rewrite_dead_letters", "schema.evolve", "view.replace"} <= died
    assert applied in (0, 2)
    assert rows(lake) == {(1, "b", LARGE), (2, "old", 2), (3, "c", LARGE)}
    assert reasons(lake, source) == ["not the JSON of an event"]
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("id", "item").collect()
    assert sorted(map(tuple, changes)) == [(1, "b"), (1, "old"), (2, "old"), (3, "c")]


@pytest.mark.slow
def test_a_dead_letter_of_a_batch_that_was_applied_when_it_was_read_again_goes(lake: Warehouse) -> None:
    lake = lake.under(ingest={"lease_seconds": 0})
    source, mended = orders(lake), orders(lake, "bigint")
    log = [batch(put("c", 1, "old", 1)), batch(put("u", 1, "a", LARGE), put("c", 2, "a", LARGE), put("u", 2, "b", 2))]

    def dying(name: str, action: Callable[[], Any]) -> Any:
        action()
        if name == "ingest.append_dead_letters":
            raise Died(name)

    with set_failpoint(dying), contextlib.suppress(Died):
        ingest(lake, source, Replay(log))
    assert len(reasons(lake, source)) == 2
    ingest(lake, mended, Replay(log))
    assert rows(lake) == {(1, "a", LARGE), (2, "b", 2)}
    assert fates(replay_dead(lake, mended)) == (2, 2, 0, 0)
    assert rows(lake) == {(1, "a", LARGE), (2, "b", 2)}
    assert reasons(lake, source) == []


@pytest.mark.slow
def test_dead_letters_before_a_truncation_or_a_snapshot_mean_nothing(lake: Warehouse) -> None:
    source = orders(lake)
    log = [
        batch(put("c", 1, "a", LARGE)),
        batch(put("c", 2, "b", LARGE), event("t", None, None), put("c", 3, "c", LARGE)),
    ]
    ingest(lake, source, Replay(log))
    assert lake.spark.table(str(source.dead_letter_table)).count() == 1
    assert fates(replay_dead(lake, orders(lake, "bigint"))) == (1, 1, 0, 0)
    assert rows(lake) == {(3, "c", LARGE)}
    other = replace(
        source_of(lake, "items"), max_dead_letters=None, dead_letter_table=lake.table("other__dead_letters")
    )
    read = [[Part("public.items", ORDERS, [event("r", None, {"id": 1, "item": "a", "n": n})])] for n in (LARGE, 1)]
    ingest(lake, other, Replay(read[:1], snapshot=2))
    assert lake.spark.table(str(other.dead_letter_table)).count() == 1
    ingest(lake, replace(other, max_dead_letters=0), Replay(read[1:] * 2, snapshot=2))
    assert lake.spark.table(str(other.dead_letter_table)).count() == 0


@pytest.mark.in_turn
def test_a_dead_letter_table_of_an_earlier_version_is_continued(lake: Warehouse) -> None:
    """What it has can't be put in order, and is not applied; what comes later is."""
    source = orders(lake)
    ingest(lake, source, Replay([batch(put("c", 1, "old", 1))]))
    columns = ("table", "reason", "payload", "origin", "at")
    texts = (put("u", 1, "a", LARGE), put("c", 2, "b", LARGE))
    lake.spark.sql(f"drop table {source.dead_letter_table}")
    old = lake.spark.createDataFrame(
        [("public.orders", "old", text.encode(), None, None) for text in texts],
        "table string, reason string, payload binary, origin string, at timestamp",
    )
    old.select(*columns).writeTo(str(source.dead_letter_table)).using("iceberg").tableProperty(
        "format-version", "3"
    ).create()
    ingest(lake, source, Replay([batch(put("c", 1, "old", 1)), batch(put("c", 3, "c", LARGE))]))
    assert fates(replay_dead(lake, orders(lake, "bigint"))) == (3, 1, 0, 2)
    assert rows(lake) == {(1, "old", 1), (3, "c", LARGE)}
    assert {reason.split(":")[0] for reason in reasons(lake, source)} == {
        "it can't be put in order with other changes of its row"
    }
