"""Tables with history keep every version of a row, however late, often or disordered its events arrive."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.shape import build_shape
from arctic_runtime.model.state import BaseState, TableState
from arctic_runtime.model.step import ReplaceCurrentView
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.history.event_versions import select_affected_versions
from arctic_runtime.spark.maintenance.cloning import reset_model
from arctic_runtime.spark.refresh.overwrite import restore_version
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.views import replace_current_view
from tests.spark.models.test_change_models import EVENTS, QUERY, cdc
from tests.spark.warehouse import Warehouse, refuse, sorted_rows

if TYPE_CHECKING:
    from pathlib import Path

    from arctic_runtime.model.table import Model


class Event(NamedTuple):
    id: int
    a: str | None
    b: int | None
    op: str
    lsn: int


Version = tuple[int, str | None, int | None, int, int | None, bool]


def scd2(lake: Warehouse, name: str = "m", sql: str = QUERY, **config: Any) -> Model:
    """A table with history of change events."""
    return cdc(lake, name, sql, **{"history": "scd2", **config})


def versions(events: Sequence[Event], track: Sequence[str] = ("a", "b"), keep_deleted: bool = True) -> list[Version]:
    """The versions of all rows, by a walk over the events of each key in their order; of one place the last counts."""
    ordered = sorted(enumerate(events), key=lambda placed: (placed[1].id, placed[1].lsn, placed[0]))
    versions: list[Version] = []
    for _, group in groupby((event for _, event in ordered), key=lambda event: event.id):
        by_place = {event.lsn: event for event in group}
        versions += versions_of_key(by_place.values(), track, keep_deleted)
    return sorted(versions, key=repr)


def versions_of_key(events: Iterable[Event], track: Sequence[str], keep_deleted: bool) -> list[Version]:
    closed: list[Version] = []
    current: Event | None = None
    for event in events:
        is_same = current is not None and [getattr(event, column) for column in track] == [
            getattr(current, column) for column in track
        ]
        if current is not None and event.op != "d" and is_same:
            current = event._replace(lsn=current.lsn)
            continue
        if current is not None:
            closed.append((current.id, current.a, current.b, current.lsn, event.lsn, False))
        current = None if event.op == "d" else event
        closed = closed if keep_deleted or current else []
    return closed if current is None else [*closed, (current.id, current.a, current.b, current.lsn, None, True)]


def stream(seed: int, count: int, late: int, keys: int = 8) -> list[Event]:
    """Events of which some come later than others after them, some twice, and some change nothing."""
    chance = random.Random(seed)
    placed = [(place + chance.randrange(late), place) for place in range(count)]
    events = [
        Event(
            chance.randrange(keys), chance.choice([None, "x", "y"]), chance.choice([None, 1]), chance.choice("uuud"), at
        )
        for _, at in sorted(placed)
    ]
    for _ in range(count // 10):
        where = chance.randrange(1, count)
        events.insert(where, chance.choice(events[:where]))
    return events


def batches(seed: int, events: Sequence[Event], count: int) -> list[Sequence[Event]]:
    cuts = sorted(random.Random(seed).sample(range(1, len(events)), count - 1))
    return [events[start:end] for start, end in pairwise([0, *cuts, len(events)])]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("merge", "late", "config"),
    [
        pytest.param("on_write", 60, {"partition_by": "_is_current"}, marks=pytest.mark.slow),
        ("on_read", 60, {"track": ["a"]}),
        pytest.param("on_write", 150, {}, marks=pytest.mark.slow),
        pytest.param("on_read", 150, {"keep_deleted": False}, marks=pytest.mark.slow),
        pytest.param("on_write", 1, {"track": ["b"]}, marks=pytest.mark.slow),
        pytest.param("on_write", 150, {"track": ["a"], "keep_deleted": False}, marks=pytest.mark.slow),
        pytest.param("on_read", 1, {}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_late_repeated_and_disordered_events_leave_the_versions_of_their_order(
    lake: Warehouse, merge: str, late: int, config: dict[str, Any], seed: int
) -> None:
    events = stream(seed, 60 if seed == 1 else 200, late)
    model = scd2(lake, merge=merge, **config)
    meaning = {key: value for key, value in config.items() if key != "partition_by"}
    so_far: list[Event] = []
    for batch in batches(seed, events, 3 if seed == 1 else 6):
        lake.append("events", batch, EVENTS)
        so_far += batch
        lake.run(model)
        assert lake.rows(model) == versions(so_far, **meaning), f"seed {seed}"
    assert lake.broken(model) == [], f"seed {seed}"
    assert lake.left_out(model) == []
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)
    assert lake.run(model, refuse).mode == "unchanged"


ROWS = "id int, a string, b int"


def of_state(lake: Warehouse, sql: str = "select id, a, b from {rows}", name: str = "m", **config: Any) -> Model:
    """A table with history of what a query says."""
    return lake.model(name, sql, **{"primary_key": "id", "history": "scd2", **config})


def told(lake: Warehouse, model: Model) -> list[tuple[Any, ...]]:
    """The versions of each row in their order: values, and whether the version is current."""
    key, rows = len(model.config.entity_key), lake.rows(model)
    ordered = sorted(rows, key=lambda row: (repr(row[:key]), row[-3]))
    return [(*row[:-3], row[-1]) for row in ordered]


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
@pytest.mark.parametrize("placed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_each_difference_of_a_query_closes_a_version_and_opens_one(lake: Warehouse, merge: str, placed: bool) -> None:
    """Of an arctic source, whose changes are followed, and of another one, which is compared."""
    lake.load("landed", [(1, "x", 1), (2, "y", 2), (3, "z", 3)], ROWS)
    source = lake.model("rows", "select id, a, b from {landed}", primary_key="id")
    sql = "select id, a, b from {rows}" if placed else "select id, a, b from {landed}"
    model = of_state(lake, sql, merge=merge)
    below = lake.model("below", "select a, count(*) n from {m} where _is_current group by a", primary_key="a")

    def follow() -> tuple[int, int, int]:
        lake.run(source)
        actions = lake.actions(lake.run(model))
        lake.run(below)
        return actions

    assert follow() == (3, 0, 0)
    lake.load("landed", [(1, "x", 10), (3, "z", 3), (4, "n", 4)], ROWS)
    assert follow() == (2, 2, 0)
    assert told(lake, model) == [
        (1, "x", 1, False),
        (1, "x", 10, True),
        (2, "y", 2, False),
        (3, "z", 3, True),
        (4, "n", 4, True),
    ]
    assert lake.rows(below) == [("n", 1), ("x", 1), ("z", 1)]
    lake.load("landed", [(1, "x", 1), (2, "y", 2), (3, "z", 3)], ROWS)
    assert follow() == (2, 2, 0)
    assert told(lake, model)[:5] == [
        (1, "x", 1, False),
        (1, "x", 10, False),
        (1, "x", 1, True),
        (2, "y", 2, False),
        (2, "y", 2, True),
    ]
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)
    assert lake.run(model, refuse).mode == "unchanged"
    assert lake.broken(model) == []
    assert lake.broken(below) == []
    assert lake.left_out(model) == []


@pytest.mark.slow
def test_a_version_ends_where_the_next_begins(lake: Warehouse) -> None:
    """Also if the clock is put back between two runs."""
    lake.append("rows", [(1, "x", 1)], ROWS)
    model = of_state(lake)
    lake.run(model)
    (first,) = lake.rows(model)
    lake.append("rows", [(2, "y", 2)], ROWS)
    lake.spark.sql(f"update {lake.sql_name('rows')} set b = 5 where id = 1")
    early = first[3].astimezone(datetime.timezone.utc) - datetime.timedelta(hours=1)
    Refresh(RefreshPlanner(model, lake.reader, now=early), lambda: lake.spark).run_refresh()
    old, new, other = lake.rows(model)
    assert old[:3] == (1, "x", 1)
    assert old[4] == new[3] == other[3] == first[3] + datetime.timedelta(microseconds=1)
    assert lake.broken(model) == []


@pytest.mark.slow
@pytest.mark.parametrize("keep_deleted", [True, False])
def test_untracked_columns_change_in_place(lake: Warehouse, keep_deleted: bool) -> None:
    lake.load("rows", [(1, "x", 1), (2, "y", 2)], ROWS)
    model = of_state(lake, track="a", keep_deleted=keep_deleted)
    lake.run(model)
    lake.load("rows", [(1, "x", 5), (2, "z", 2)], ROWS)
    assert lake.actions(lake.run(model)) == (1, 2, 0)
    assert told(lake, model) == [(1, "x", 5, True), (2, "y", 2, False), (2, "z", 2, True)]
    lake.load("rows", [(1, "x", 5)], ROWS)
    assert lake.actions(lake.run(model)) == ((0, 1, 0) if keep_deleted else (0, 0, 2))
    lake.load("rows", [(1, "x", 5), (2, "z", 2)], ROWS)
    assert lake.actions(lake.run(model)) == (1, 0, 0)
    assert lake.broken(model) == []


@pytest.mark.slow
def test_an_event_that_changed_nothing_counts_before_a_late_one(lake: Warehouse) -> None:
    model = scd2(lake)
    lake.append("events", [(1, "x", 1, "c", 10), (2, "x", 1, "c", 10)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, "x", 1, "u", 30), (2, None, None, "d", 30), (2, None, None, "d", 40)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, "y", 1, "u", 20), (2, "y", 1, "c", 35)], EVENTS)
    assert lake.actions(lake.run(model)) == (3, 1, 0)
    assert lake.rows(model) == [
        (1, "x", 1, 10, 20, False),
        (1, "x", 1, 30, None, True),
        (1, "y", 1, 20, 30, False),
        (2, "x", 1, 10, 30, False),
        (2, "y", 1, 35, 40, False),
    ]
    assert lake.broken(model) == []


@pytest.mark.slow
def test_only_versions_that_events_can_change_are_read(lake: Warehouse) -> None:
    """Without a late event those are the newest ones, however many versions there are."""
    model = scd2(lake)
    for place in range(1, 5):
        lake.append("events", [(1, f"v{place}", place, "u", place), (2, "x", 1, "u", place)], EVENTS)
        outcome = lake.run(model)
    assert lake.actions(outcome) == (1, 1, 0)
    assert [row[1:4] for row in lake.rows(model)] == [
        *((f"v{number}", number, number) for number in range(1, 5)),
        ("x", 1, 1),
    ]
    closed = lake.spark.table(quoted(*model.table.parts))
    assert select_affected_versions(closed, "5", build_shape(model, lake.state(model), ())).count() == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["timestamp", "date", "string", "decimal(20,2)", "double", "timestamp_ntz"])
def test_intervals_are_of_the_type_of_the_sequence(lake: Warehouse, kind: str) -> None:
    sql = (
        "select g, id, a, op, cast(date_add(date '2026-01-01', lsn) as string) day, lsn from {changes(events)}"
        if kind in ("timestamp", "date", "timestamp_ntz", "string")
        else "select g, id, a, op, lsn as day, lsn from {changes(events)}"
    )
    sql = f"select g, id, a, op, cast(day as {kind}) as at from ({sql})"
    model = scd2(lake, sql=sql, primary_key=["g", "id"], hash_key="id", sequence_by="at", exclude_columns=["op", "at"])
    columns = "g string, id int, a string, op string, lsn int"
    lake.append("events", [("a", 1, "x", "c", 1), ("b", 1, "y", "c", 2)], columns)
    lake.run(model)
    lake.append("events", [("a", 1, "z", "u", 5), ("b", 1, None, "d", 6)], columns)
    lake.run(model)
    lake.append("events", [("a", 1, "w", "u", 3), ("a", 1, "z", "u", 5), ("b", 2, "n", "c", 4)], columns)
    assert lake.actions(lake.run(model)) == (2, 1, 0)
    assert told(lake, model) == [
        ("a", 1, "x", False),
        ("a", 1, "w", False),
        ("a", 1, "z", True),
        ("b", 1, "y", False),
        ("b", 2, "n", True),
    ]
    assert lake.broken(model) == []


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ((None, "x", 1, "c", 1), "have a null in the primary key"),
        ((1, "x", 1, "c", None), "have a null in `sequence_by`"),
    ],
)
@pytest.mark.slow
def test_events_without_key_or_place_are_errors(lake: Warehouse, event: Any, says: str) -> None:
    lake.append("events", [event], EVENTS)
    with pytest.raises(DataError, match=says) as raised:
        lake.run(scd2(lake))
    assert "_valid_from" not in str(raised.value)


@pytest.mark.slow
def test_a_key_that_a_query_gives_twice_is_an_error(lake: Warehouse) -> None:
    lake.append("rows", [(1, "x", 1)], ROWS)
    model = of_state(lake)
    lake.run(model)
    lake.append("rows", [(1, "y", 1)], ROWS)
    with pytest.raises(DataError, match="duplicate key") as raised:
        lake.run(model)
    assert "column: id\n" in str(raised.value)
    assert told(lake, model) == [(1, "x", 1, True)]


@pytest.mark.slow
def test_the_columns_of_intervals_are_the_tables_own(lake: Warehouse) -> None:
    lake.append("rows", [(1, "x", 1)], ROWS)
    with pytest.raises(ConfigError, match="found: _valid_to"):
        lake.run(of_state(lake, "select id, a as _valid_to from {rows}"))
    with pytest.raises(ConfigError, match="`track` names column `c`"):
        lake.run(of_state(lake, track="c"))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["append_new_columns", "sync_all_columns"])
def test_columns_come_and_go(lake: Warehouse, policy: str) -> None:
    lake.append("events", [(1, "x", 1, "c", 10), (2, "x", 1, "c", 10)], EVENTS)
    lake.run(scd2(lake, on_schema_change=policy))
    lake.append("events", [(1, "y", 2, "u", 20)], EVENTS)
    sql = "select id, a, op, lsn, length(a) as n from {changes(events)}"
    model = scd2(lake, sql=sql, on_schema_change=policy)
    lake.run(model)
    lake.append("events", [(1, "yy", 2, "u", 30), (1, "z", 3, "u", 15)], EVENTS)
    lake.run(model)
    rows = lake.spark.table(quoted(*model.table.parts))
    versions = {(row["_valid_from"], row["a"], row["n"]) for row in rows.where("id = 1").collect()}
    assert versions == {(10, "x", None), (15, "z", 1), (20, "y", 1), (30, "yy", 2)}
    kept = {row["b"] for row in rows.collect()} if policy == "append_new_columns" else set()
    assert kept == ({1} if policy == "append_new_columns" else set())
    assert ("b" in rows.columns) == (policy == "append_new_columns")
    assert lake.broken(model) == []
    assert [text for text in lake.left_out(model) if "n came later, and may be null in rows of earlier events" in text]


@pytest.mark.slow
def test_a_new_column_of_a_query_opens_versions_where_it_has_a_value(lake: Warehouse) -> None:
    lake.append("rows", [(1, "x", 1), (2, None, 1)], ROWS)
    lake.run(of_state(lake))
    model = of_state(lake, "select id, a, b, upper(a) as c from {rows}")
    assert lake.actions(lake.run(model)) == (1, 1, 0)
    assert lake.broken(model) == []


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_restored_history_continues(lake: Warehouse, merge: str) -> None:
    model = scd2(lake, merge=merge)
    lake.append("events", [(1, "x", 1, "c", 10)], EVENTS)
    lake.run(model)
    then = lake.head(model)
    lake.append("events", [(1, "y", 1, "u", 20)], EVENTS)
    lake.run(model)
    restore_version(lake.session_of(model), then)
    assert lake.rows(model) == [(1, "x", 1, 10, None, True)]
    lake.append("events", [(1, "z", 1, "u", 15)], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "x", 1, 10, 15, False), (1, "z", 1, 15, None, True)]
    rows = lake.model("rows", "select * from {m}", primary_key=["id", "_valid_from"])
    lake.run(rows)
    assert lake.broken(model) == lake.broken(rows) == []


@pytest.mark.slow
@pytest.mark.parametrize(("merge", "keep_deleted", "seed"), [("on_write", True, 1), ("on_read", False, 2)])
def test_a_history_of_a_query_continues_after_a_restore_new_columns_and_full_refreshes(
    lake: Warehouse, merge: str, keep_deleted: bool, seed: int
) -> None:
    """Next to the list of what each row was; the query's rows are permuted."""
    chance = random.Random(seed)
    config: dict[str, Any] = {"merge": merge, "keep_deleted": keep_deleted, "track": ["a", "b"]}
    model, now, past = of_state(lake, **config), dict[int, tuple[str, int]](), dict[int, list[Any]]()

    def differ() -> None:
        for key in {*now, *past}:
            known = past.setdefault(key, [None])
            if known[-1] != now.get(key):
                known.append(now.get(key))
            if key not in now and not keep_deleted:
                del past[key]

    def check() -> None:
        rows = lake.spark.table(quoted(*model.table.parts)).select("id", "a", "b", "_is_current").collect()
        result = sorted((tuple(row[:3]), row[3]) for row in rows)
        versions = [
            ((key, *version), at == len(known) - 1)
            for key, known in past.items()
            for at, version in enumerate(known)
            if version
        ]
        assert result == sorted(versions), f"seed {seed}"
        assert lake.broken(model) == [], f"seed {seed}"

    kept: list[tuple[int, dict[int, list[Any]]]] = []
    for turn in range(7):
        for key in chance.sample(range(6), 3):
            now[key] = (chance.choice("xy"), chance.randrange(2))
        if turn:
            del now[chance.choice(sorted(now))]
        lake.load("rows", chance.sample([(key, *value) for key, value in now.items()], len(now)), ROWS)
        if turn == 3:
            then, past = kept[1]
            restore_version(lake.session_of(model), then)
            check()
        if turn == 5:
            model = of_state(lake, "select id, a, b, upper(a) as c from {rows}", **config)
        lake.run(model, full_refresh=turn == 6)
        differ()
        check()
        kept.append((lake.head(model), {key: list(known) for key, known in past.items()}))
    assert lake.left_out(model) == []


@pytest.mark.slow
def test_a_full_refresh_never_loses_versions(lake: Warehouse) -> None:
    lake.append("events", [(1, "x", 1, "c", 10)], EVENTS)
    model = scd2(lake)
    lake.run(model)
    lake.append("events", [(1, "y", 1, "u", 20)], EVENTS)
    lake.run(model)
    lake.spark.sql(f"delete from {lake.sql_name('events')} where lsn = 10")
    before = lake.rows(model)
    with pytest.raises(DataError, match="a full refresh would lose versions"):
        lake.run(model, full_refresh=True)
    assert lake.rows(model) == before


QUERIES = {
    "deltas": ("select r.id, r.a, n.b from {rows} r left join {names} n on n.id = r.b", "id"),
    "aggregate": ("select a as id, count(*) as n, sum(b) as b from {rows} group by a", "id"),
    "window": ("select id, a, row_number() over (partition by a order by id) as b from {rows}", "id"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_way_to_follow_a_query_keeps_versions(lake: Warehouse, name: str, seed: int) -> None:
    """The versions are those of the query's answers after each run."""
    chance = random.Random(seed)
    (sql, key), expected = QUERIES[name], dict[Any, list[Any]]()
    landed = {number: (number, chance.choice("xyz"), chance.randrange(3)) for number in range(6)}
    sources = [
        lake.model(name, f"select id, a, b from {{landed_{name}}}", primary_key="id") for name in ("rows", "names")
    ]
    model = of_state(lake, sql, merge=chance.choice(["on_write", "on_read"]), refresh="incremental", primary_key=key)
    for turn in range(4):
        if turn:
            for number in chance.sample(range(8), 3):
                landed[number] = (number, chance.choice("xyz"), chance.randrange(3))
            landed.pop(chance.choice(sorted(landed)))
        lake.load("landed_rows", landed.values(), ROWS)
        lake.load("landed_names", [(number, "n", turn * number) for number in range(3)], ROWS)
        for source in sources:
            lake.run(source)
        outcome = lake.run(model)
        assert turn == 0 or outcome.mode == "incremental", outcome.because
        now = {row[0]: row for row in sorted_rows(lake.spark.sql(sql.format_map(Named(lake))))}
        for number in {*now, *expected}:
            past = expected.setdefault(number, [None])
            if past[-1] != now.get(number):
                past.append(now.get(number))
    wanted = sorted((row for past in expected.values() for row in past if row), key=repr)
    assert sorted((row[:-3] for row in lake.rows(model)), key=repr) == wanted, f"seed {seed}"
    assert lake.broken(model) == [], f"seed {seed}"


class Named(dict[str, str]):
    """Tables of a warehouse by their names."""

    def __init__(self, lake: Warehouse) -> None:
        self.lake = lake

    def __missing__(self, name: str) -> str:
        return self.lake.sql_name(name)


BITEMPORAL = {"valid_time": "at", "exclude_columns": ["op", "lsn", "at"]}
TRUE_FROM = "id int, a string, op string, lsn bigint, at int"
Belief = tuple[int, str, int, int | None]


def beliefs_after(events: Sequence[tuple[int, str, str, int, int]]) -> set[Belief]:
    """What events say: of those of one valid time that with the greatest sequence, of these the last, counts."""
    beliefs: set[Belief] = set()
    newest = {(key, at): (a, op) for key, a, op, _, at in sorted(events, key=lambda event: event[3])}
    for key in {key for key, _ in newest}:
        times = sorted(at for row_key, at in newest if row_key == key)
        for at, end in zip(times, [*times[1:], None], strict=True):
            a, op = newest[key, at]
            if op != "d":
                beliefs.add((key, a, at, end))
    return beliefs


@pytest.mark.slow
@pytest.mark.parametrize(("merge", "seed"), [("on_write", 1), ("on_read", 2), ("on_write", 3)])
def test_a_bitemporal_table_says_what_was_known_when(lake: Warehouse, merge: str, seed: int) -> None:
    """Events are late in both orders; what the table said after each run stays what it said then."""
    chance = random.Random(seed)
    sql = "select id, a, op, lsn, at from {changes(events)}"
    model = scd2(lake, sql=sql, merge=merge, **BITEMPORAL)
    events: list[tuple[int, str, str, int, int]] = []
    said: list[tuple[datetime.datetime, set[Belief]]] = []
    for _ in range(5):
        batch = [
            (
                chance.randrange(4),
                chance.choice("xyz"),
                chance.choice("uuud"),
                chance.randrange(60),
                chance.randrange(9),
            )
            for _ in range(12)
        ]
        batch += chance.sample(events, min(2, len(events)))
        lake.append("events", batch, TRUE_FROM)
        lake.run(model)
        events += batch
        changes = lake.state(model).changes
        assert changes is not None
        at = datetime.datetime.fromtimestamp(changes.commits[-1].at_ms / 1000)
        said.append((at, beliefs_after(events)))
        rows = lake.spark.table(quoted(*model.table.parts)).collect()
        for time, then in said:
            open_then = [row for row in rows if row._recorded_to is None or time < row._recorded_to]
            known = [row for row in open_then if row._recorded_from <= time]
            assert len(known) == len(then)
            assert {(row.id, row.a, row._valid_from, row._valid_to) for row in known} == then, f"seed {seed}"
        assert all(row._is_current == (row._valid_to is None and row._recorded_to is None) for row in rows)
    assert lake.broken(model) == [], f"seed {seed}"
    assert lake.left_out(model) == []
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


@pytest.mark.slow
def test_an_event_without_a_valid_time_is_an_error(lake: Warehouse) -> None:
    model = scd2(lake, sql="select id, a, op, lsn, at from {changes(events)}", **BITEMPORAL)
    lake.append("events", [(1, "x", "c", 1, None)], TRUE_FROM)
    with pytest.raises(DataError, match="have a null in `valid_time`"):
        lake.run(model)


WIDE = "select id, a, b, upper(a) as big, op, lsn from {changes(events)}"


def seen(lake: Warehouse, view: str, columns: str = "id, a") -> list[tuple[Any, ...]]:
    """What readers see of a view; nothing where there is none."""
    if view not in lake.reader.list_views(lake.namespace):
        return []
    return sorted_rows(lake.spark.sql(f"select {columns} from {lake.sql_name(view)}"))


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_a_view_shows_the_current_versions_as_long_as_the_model_wants_one(lake: Warehouse, merge: str) -> None:
    lake.append("events", [(1, "x", 1, "c", 10), (2, "y", 1, "c", 10)], EVENTS)
    model = scd2(lake, merge=merge, current_view=True)
    lake.run(model)
    above = lake.model("above", "select id, a from {m_current}", primary_key="id", refresh="strict")
    lake.run(above)
    lake.append("events", [(1, "z", 1, "u", 20), (2, None, None, "d", 20), (3, "n", 1, "c", 20)], EVENTS)
    lake.run(model)
    now = [(1, "z"), (3, "n")]
    assert seen(lake, "m_current") == now
    assert lake.run(above).mode == "incremental"
    assert lake.rows(above) == now
    assert lake.run(model, refuse).mode == "unchanged"
    lake.run(model, full_refresh=True)
    assert seen(lake, "m_current") == now
    wide = scd2(lake, sql=WIDE, merge=merge, current_view=True)
    lake.append("events", [(3, "o", 1, "u", 30)], EVENTS)
    lake.run(wide)
    assert seen(lake, "m_current", "id, a, big") == [(1, "z", None), (3, "o", "O")]
    named = scd2(lake, sql=WIDE, merge=merge, current_view="customers")
    assert lake.run(named).mode == "unchanged"
    assert (seen(lake, "m_current"), seen(lake, "customers")) == ([], [(1, "z"), (3, "o")])
    gone = [str(dropped.name.name) for dropped in reset_model(lake.session_of(named))]
    assert gone[0] == "customers"
    assert gone[-1] == "m__changes"
    assert lake.reader.list_views(lake.namespace) == []
    lake.run(scd2(lake, current_view="customers", merge=merge))
    assert seen(lake, "customers") == [(1, "z"), (3, "o")]
    lake.run(scd2(lake, merge=merge))
    assert seen(lake, "customers") == []


def test_a_view_of_current_versions_leaves_other_relations_alone(lake: Warehouse) -> None:
    lake.append("events", [(1, "x", 1, "c", 10)], EVENTS)
    lake.load("m_current", [(7, "theirs", 1)], ROWS)
    with pytest.raises(ConfigError, match=r"found: the table .*m_current, which was not created by this model"):
        lake.run(scd2(lake, current_view=True))
    lake.run(scd2(lake, current_view="now"))
    assert lake.rows(lake.model("m_current", "select 1", primary_key="id")) == [(7, "theirs", 1)]


def test_a_catalog_without_views_refuses_the_view_of_current_versions(lake: Warehouse, tmp_path: Path) -> None:
    session = lake.environment.new_session()
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(tmp_path)}
    for key, value in settings.items():
        session.conf.set(f"spark.sql.catalog.bare{key}", value)
    table = TableName("bare", "ns", "m")
    session.sql("create table bare.ns.m (id int, _is_current boolean) using iceberg")
    model = replace(scd2(lake, current_view=True), table=table)
    base = BaseState("base", (Column("id", "int"), Column("_is_current", "boolean")), 1, None, 0, {})
    view = model.current_view
    assert view is not None
    with pytest.raises(ConfigError, match="`current_view` needs a catalog with views; the rows of the table are writt"):
        replace_current_view(session, model, TableState(base=base), ReplaceCurrentView(view, table))
    lake.environment.discard_session(session)
