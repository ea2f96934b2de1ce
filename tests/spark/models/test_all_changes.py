"""Every change of a row kept in the change table, and events that empty the table."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.errors import DataError
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.spark.documented import documented
from tests.spark.models.test_change_models import MATCH, cdc
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

EVENTS = "id int, a string, b int, op string, lsn bigint"
Event = tuple[int | None, str | None, int | None, str, int]


def stream(seed: int, count: int, truncations: int = 0) -> list[Event]:
    """Events in any order, of which some come twice; an event that empties the table has a place of its own."""
    chance = random.Random(seed)
    places = [2 * chance.randrange(count) for _ in range(count)]
    events: list[Event] = [
        (
            chance.randrange(6),
            chance.choice([None, "x", "y"]),
            chance.choice([None, 1, 2]),
            chance.choice("uuud"),
            place,
        )
        for place in places
    ]
    emptied = [(None, None, None, "t", 2 * place + 1) for place in chance.sample(range(count), truncations)]
    log: list[Event] = [*events, *chance.sample(events, count // 8), *emptied]
    chance.shuffle(log)
    return log


def applied(events: Sequence[Event], on_match: str = "replace") -> list[tuple[Any, ...]]:
    table: dict[int, Any] = {}
    for _, (key, a, b, op, _) in sorted(enumerate(events), key=lambda placed: (placed[1][-1], placed[0])):
        if op == "t":
            table = {}
        elif op == "d":
            table.pop(key or 0, None)
        else:
            table[key or 0] = MATCH[on_match](table.get(key or 0), (a, b))
    return sorted(((key, *image) for key, image in table.items()), key=repr)


def batches(seed: int, events: Sequence[Event], count: int) -> list[Sequence[Event]]:
    cuts = [0, *sorted(random.Random(seed).sample(range(1, len(events)), count - 1)), len(events)]
    return [events[start:end] for start, end in pairwise(cuts)]


class Log:
    """The change rows that `keep: all` promises for `on_match: replace`."""

    def __init__(self) -> None:
        self.table: dict[int, tuple[str | None, int | None]] = {}
        self.seen: dict[int, int] = {}

    def of(self, batch: Sequence[Event]) -> list[tuple[Any, ...]]:
        rows = []
        ordered = sorted(enumerate(batch), key=lambda placed: (placed[1][0], placed[1][-1], placed[0]))
        in_time = [event for _, event in ordered if event[-1] >= self.seen.get(event[0] or 0, -1)]
        for (key, place), same in groupby(in_time, key=lambda event: (event[0] or 0, event[-1])):
            _, a, b, op, _ = list(same)[-1]
            self.seen[key] = place
            old, new = self.table.pop(key, None), (None if op == "d" else (a, b))
            if new is not None:
                self.table[key] = new
            if old == new and new is not None:
                continue
            action = "delete" if new is None else "insert" if old is None else "update"
            rows.append((key, place, action, new, old))
        return rows


def told(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    images = [
        (
            row["id"],
            row["_seq"],
            row["_action"],
            None if row["_action"] == "delete" else (row["a"], row["b"]),
            None if row["_before"] is None else tuple(row["_before"].values()),
        )
        for row in rows
    ]
    return sorted(images, key=lambda image: image[:2])


@pytest.mark.slow
@pytest.mark.parametrize(("merge", "seed"), [("on_read", 1), ("on_write", 2)])
def test_every_event_that_changes_its_row_is_a_change_row_in_the_order_of_events(
    lake: Warehouse, merge: str, seed: int
) -> None:
    events = stream(seed, 60)
    model = cdc(lake, keep="all", merge=merge, compaction="off")
    rows = "select coalesce(a, 'none') as a, count(*) as n from {m} group by coalesce(a, 'none')"
    groups = lake.model("groups", rows, primary_key="a", refresh="strict")
    copy = cdc(
        lake,
        "copy",
        sql="select id, a, b, _action from {changes(m)}",
        sequence_by=None,
        delete_when="_action = 'delete'",
        exclude_columns=None,
    )
    log, known = Log(), 0
    for batch in batches(seed, events, 3):
        lake.append("events", batch, EVENTS)
        lake.run(model)
        result = lake.log(model)
        assert told(result[known:]) == log.of(batch), f"seed {seed}"
        known = len(result)
        table = sorted(((key, *image) for key, image in log.table.items()), key=repr)
        assert lake.rows(model) == table
        lake.run(copy)
        assert lake.rows(copy) == table
    assert {tuple(look_up_row(lake.reader, model, [str(row[0])]).row.values()) for row in table} == set(table)
    lake.run(groups)
    assert sum(row[1] for row in lake.rows(groups)) == len(table)
    compact_table(lake.session_of(model), "full")
    assert lake.rows(model) == table
    assert lake.broken(model) == lake.left_out(model) == lake.broken(copy) == lake.broken(groups) == []


@pytest.mark.slow
@pytest.mark.parametrize(("on_match", "merge"), [("update", "on_read"), ("ignore", "on_write")])
def test_rows_that_follow_from_all_their_events_fold_to_the_table_with_every_change_kept(
    lake: Warehouse, on_match: str, merge: str
) -> None:
    events = stream(11, 60)
    model = cdc(lake, keep="all", on_match=on_match, merge=merge)
    so_far: list[Event] = []
    for batch in batches(11, events, 3):
        lake.append("events", batch, EVENTS)
        so_far += batch
        lake.run(model)
        assert lake.rows(model) == applied(so_far, on_match)
    assert lake.broken(model) == lake.left_out(model) == []
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


@pytest.mark.slow
def test_events_without_a_sequence_are_numbered_in_their_commit(lake: Warehouse) -> None:
    sql = "select id, a, b, op, lsn from {changes(events)} where id > 0"
    model = cdc(lake, sql=sql, sequence_by=None)
    lake.append("events", [(1, "x", 1, "u", 0)], EVENTS)
    lake.run(model)
    model = cdc(lake, sql=sql, sequence_by=None, keep="all")
    lake.append(
        "events", [(1, "y", 1, "u", 0), (2, "n", 1, "u", 0), (1, None, None, "d", 0), (1, "z", 2, "u", 0)], EVENTS
    )
    lake.run(model)
    new = [(row["id"], row["_seq"], row["_action"]) for row in lake.log(model)[1:]]
    assert sorted(new) == [(1, 1, "update"), (1, 2, "delete"), (1, 3, "insert"), (2, 1, "insert")]
    assert lake.rows(model) == [(1, "z", 2), (2, "n", 1)]
    restore_version(lake.session_of(model), lake.state(model).changes.commits[1].version.snapshot)  # type: ignore[union-attr]
    assert lake.rows(model) == [(1, "x", 1)]
    assert lake.broken(model) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("on_match", "merge", "keep", "seed"),
    [
        ("replace", "on_read", "net", 21),
        ("replace", "on_write", "all", 22),
        ("update", "on_write", "net", 23),
        ("ignore", "on_read", "all", 24),
    ],
)
def test_an_event_that_empties_the_table_takes_its_place_among_the_others(
    lake: Warehouse, on_match: str, merge: str, keep: str, seed: int
) -> None:
    events = stream(seed, 48, truncations=4)
    model = cdc(lake, on_match=on_match, merge=merge, keep=keep, truncate_when="op = 't'")
    so_far: list[Event] = []
    for batch in batches(seed, events, 4):
        lake.append("events", batch, EVENTS)
        so_far += batch
        lake.run(model)
        assert lake.rows(model) == applied(so_far, on_match), f"seed {seed}"
    assert lake.broken(model) == lake.left_out(model) == [], f"seed {seed}"
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


@pytest.mark.in_turn
def test_older_events_stay_out_of_an_emptied_table_and_rows_need_a_key(lake: Warehouse) -> None:
    model = cdc(lake, truncate_when="op = 't'")
    steps: list[tuple[list[Event], list[tuple[Any, ...]]]] = [
        ([(1, "x", 1, "u", 10), (2, "y", 2, "u", 30)], [(1, "x", 1), (2, "y", 2)]),
        ([(None, None, None, "t", 20)], [(2, "y", 2)]),
        ([(1, "late", 1, "u", 15), (3, "late", 3, "u", 5)], [(2, "y", 2)]),
        ([(None, None, None, "t", 40), (3, "new", 3, "u", 41)], [(3, "new", 3)]),
    ]
    for events, left in steps:
        lake.append("events", events, EVENTS)
        lake.run(model)
        assert lake.rows(model) == left
    assert lake.broken(model) == []
    lake.append("events", [(None, "x", 1, "u", 50)], EVENTS)
    with pytest.raises(DataError, match="null in the primary key"):
        lake.run(model)


@pytest.mark.slow
def test_a_table_without_a_sequence_is_emptied_at_the_position_of_the_event(lake: Warehouse) -> None:
    sql = "select id, a, b, op, lsn from {changes(events)} where lsn = 0"
    model = cdc(lake, sql=sql, sequence_by=None, truncate_when="op = 't'")
    lake.append("events", [(1, "x", 1, "u", 0), (2, "x", 1, "u", 0)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, "y", 1, "u", 0), (None, None, None, "t", 0), (3, "z", 1, "u", 0)], EVENTS)
    assert lake.actions(lake.run(model)) == (1, 0, 2)
    assert lake.rows(model) == [(3, "z", 1)]
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_the_example_of_the_documentation_keeps_every_change(lake: Warehouse) -> None:
    columns = "order_id int, status string, op string, lsn bigint"
    model: Model = documented(lake, "concepts.md", "## All changes", "orders_now")
    lake.append("orders", [(1, "new", "c", 1), (1, "paid", "u", 2), (2, "new", "c", 3), (1, "sent", "u", 4)], columns)
    lake.run(model)
    lake.append("orders", [(None, None, "t", 5), (3, "new", "c", 6)], columns)
    lake.run(model)
    assert lake.rows(model) == [(3, "new")]
    log = sorted(lake.log(model), key=lambda row: row["_seq"])
    assert [(row["order_id"], row["_action"], row["_seq"]) for row in log] == [
        (1, "insert", 1),
        (1, "update", 2),
        (2, "insert", 3),
        (1, "update", 4),
        (1, "delete", 5),
        (2, "delete", 5),
        (3, "delete", 5),
        (3, "insert", 6),
    ]
    assert lake.broken(model) == []
