"""A table of change events through its life: columns come and grow, versions are restored, rules change.

Each kind of table is compared with a dict that applies the same events one at a time in their order, after events that
are late, repeated and permuted. A model of what is and one of changes follow it all the while.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.window_changes import read_changes_between
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.spark.models.test_change_models import cdc
from tests.spark.warehouse import Rows, Warehouse, refuse, sorted_rows

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model


class Event(NamedTuple):
    """An event of a row; `op` is `u` for its values, `d` for its end, `t` for the end of all rows."""

    id: int | None
    a: str | None
    n: int | None
    op: str
    lsn: int


EVENTS = "id int, a string, n int, op string, lsn int"
NARROW = "select id, a, n, op, lsn{at} from {{changes(events)}}"
WIDE = "select id, a, cast(n as bigint) as n, op, lsn, upper(a) as big{at} from {{changes(events)}}"
PLAIN = NARROW.format(at="")
Row = dict[str, Any]


def in_order(events: Sequence[Event]) -> list[Event]:
    return [event for _, event in sorted(enumerate(events), key=lambda placed: (placed[1].lsn, placed[0]))]


def folded(events: Sequence[Event], merged: Callable[[Row | None, Event], Row]) -> Rows:
    """One row for each key that is left, from a function of the row before and the event."""
    table: dict[int | None, Row] = {}
    for event in in_order(events):
        if event.op == "t":
            table = {}
        elif event.op == "d":
            table.pop(event.id, None)
        else:
            table[event.id] = merged(table.get(event.id), event)
    return sorted(((key, row["a"], row["n"]) for key, row in table.items()), key=repr)


def newest(events: Sequence[Event]) -> Rows:
    return folded(events, lambda _, event: {"a": event.a, "n": event.n})


def known(*values: Any) -> list[Any]:
    return [value for value in values if value is not None]


def total(events: Sequence[Event]) -> Rows:
    """`n` is a sum and `a` the last value that is not null."""

    def merged(old: Row | None, event: Event) -> Row:
        was = old or {"a": None, "n": None}
        numbers = known(was["n"], event.n)
        return {"a": event.a or was["a"], "n": sum(numbers) if numbers else None}

    return folded(events, merged)


def highest(events: Sequence[Event]) -> Rows:
    """`n` is a maximum and `a` the last value that is not null."""

    def merged(old: Row | None, event: Event) -> Row:
        was = old or {"a": None, "n": None}
        return {"a": event.a or was["a"], "n": max(known(was["n"], event.n), default=None)}

    return folded(events, merged)


def doubled(events: Sequence[Event]) -> Rows:
    """`n` is twice what it was and the event's more, the first time what the event says."""

    def merged(old: Row | None, event: Event) -> Row:
        number = event.n if old is None else (2 * old["n"] + event.n if None not in (old["n"], event.n) else None)
        return {"a": event.a, "n": number}

    return folded(events, merged)


def filled(events: Sequence[Event]) -> Rows:
    """Values that are not null take the place of others."""

    def merged(old: Row | None, event: Event) -> Row:
        was = old or {"a": None, "n": None}
        return {"a": event.a or was["a"], "n": was["n"] if event.n is None else event.n}

    return folded(events, merged)


def versions(events: Sequence[Event], track: Sequence[str] = ("a", "n")) -> Rows:
    """Every version of a row with the interval in which it was valid."""
    versions: list[list[Any]] = []
    current: dict[int | None, list[Any]] = {}
    by_place = {(event.id, event.lsn): event for event in events}
    for event in sorted(by_place.values(), key=lambda event: event.lsn):
        old = current.get(event.id)
        values = {"a": event.a, "n": event.n}
        if (
            old is not None
            and event.op != "d"
            and all(values[column] == old[1 + "an".index(column)] for column in track)
        ):
            old[1:3] = [event.a, event.n]
            continue
        if old is not None:
            old[4:] = [event.lsn, False]
            del current[event.id]
        if event.op != "d":
            current[event.id] = [event.id, event.a, event.n, event.lsn, None, True]
            versions.append(current[event.id])
    return sorted(map(tuple, versions), key=repr)


def by_a(events: Sequence[Event]) -> Rows:
    return versions(events, ("a",))


def beliefs(events: Sequence[Event]) -> Rows:
    """What is true from a time on, by the events of each row in the order of these times; of one time the last counts.

    The time is `lsn % 7`.
    """
    counts = {(event.id, event.lsn % 7): event for event in in_order(events)}
    versions = []
    for (key, at), event in counts.items():
        ends = min((other for row_key, other in counts if row_key == key and other > at), default=None)
        if event.op != "d":
            versions.append((key, event.a, event.n, at, ends))
    return sorted(versions, key=repr)


def undeleted(events: Sequence[Event]) -> Rows:
    """The same where deletes are values like any."""
    return beliefs([event._replace(op="u") for event in events])


@dataclass(frozen=True)
class Kind:
    """A kind of table: its keys, what its rows are after events, and another rule with what the rows are by that."""

    config: Mapping[str, Any]
    rows: Callable[[Sequence[Event]], Rows]
    rule: Mapping[str, Any]
    then: Callable[[Sequence[Event]], Rows]
    key: tuple[str, ...] = ("id",)
    more: Mapping[str, Any] = field(default_factory=dict)
    """Keys that the model gets with its new columns."""
    truncations: int = 0
    now: str = "true"
    """Which rows are what the table says now, of one that keeps what it said before."""


SUMS = {"a": "last_non_null", "n": "sum"}
KINDS = {
    "functions": Kind({"merge_columns": SUMS}, total, {"merge_columns": {**SUMS, "n": "max"}}, highest),
    "a function that comes with its column": Kind(
        {"merge_columns": SUMS},
        total,
        {"merge_columns": {**SUMS, "n": "max", "big": "last_non_null"}},
        highest,
        more={"merge_columns": {**SUMS, "big": "last_non_null"}},
    ),
    "an expression": Kind({"merge_columns": {"n": "2 * old.n + new.n"}}, doubled, {"merge_columns": None}, newest),
    "every change": Kind({"keep": "all"}, newest, {"on_match": "update"}, filled),
    "every change of sums": Kind({"keep": "all", "merge_columns": SUMS}, total, {"merge_columns": None}, newest),
    "truncations": Kind(
        {"truncate_when": "op = 't'", "on_match": "update"}, filled, {"on_match": "replace"}, newest, truncations=2
    ),
    "history": Kind({"history": "scd2", "track": ["a", "n"]}, versions, {"track": "a"}, by_a, ("id", "_valid_from")),
    "two times": Kind(
        {"history": "scd2", "valid_time": "at", "exclude_columns": ["op", "lsn", "at"]},
        beliefs,
        {"delete_when": "op = 'never'"},
        undeleted,
        ("id", "_valid_from", "_recorded_from"),
        now="_recorded_to is null",
    ),
}


def grouped(rows: Sequence[tuple[Any, ...]]) -> Rows:
    """How many rows there are with each `a`, and the sum of their `n`."""
    values: dict[str, list[Any]] = {}
    for a, n in rows:
        values.setdefault(a or "-", []).append(n)
    sums = {a: known(*numbers) for a, numbers in values.items()}
    return sorted(((a, len(values[a]), sum(value) if value else None) for a, value in sums.items()), key=repr)


class Life:
    """A table and its readers, and the events that it has read."""

    def __init__(self, lake: Warehouse, kind: Kind, merge: str, seed: int) -> None:
        self.lake, self.kind, self.merge, self.seed = lake, kind, merge, seed
        self.chance, self.events, self.place = random.Random(seed), list[Event](), 0
        self.model = self.made(NARROW)
        key = ", ".join(kind.key)
        self.copy = lake.model(
            "copy",
            f"select {key}, a, n, _action from {{changes(m)}}",
            primary_key=list(kind.key),
            input="changes",
            delete_when="_action = 'delete'",
        )
        sql = "select coalesce(a, '-') as a, count(*) as c, sum(n) as s from {m} group by coalesce(a, '-')"
        self.groups = lake.model("groups", sql, primary_key="a")

    def made(self, sql: str, **more: Any) -> Model:
        sql = sql.format(at=", lsn % 7 as at" if "valid_time" in self.kind.config else "")
        return cdc(self.lake, sql=sql, merge=self.merge, **{**self.kind.config, **more})

    def arrive(self, count: int, late: bool = True) -> None:
        """Events that are permuted, of which some come twice, and some are older than what was read before."""
        lowest = 0 if late else self.place
        self.place += 2 * count
        new = [
            Event(
                self.chance.randrange(5),
                self.chance.choice([None, "x", "y"]),
                self.chance.choice([None, 1, 2, 3]),
                self.chance.choice("uuuud"),
                2 * place,
            )
            for place in self.chance.sample(range(lowest // 2, self.place // 2), count)
        ]
        again = self.chance.sample(self.events, min(len(self.events), 2)) if late else []
        ends = self.chance.sample(range(lowest // 2, self.place // 2), self.kind.truncations)
        batch = [*new, *again, *(Event(None, None, None, "t", 2 * end + 1) for end in ends)]
        self.chance.shuffle(batch)
        self.events += batch
        self.lake.append("events", batch, EVENTS)

    def run(self) -> str:
        return self.lake.run(self.model).mode

    def columns(self, *names: str) -> Rows:
        rows = self.lake.spark.table(quoted(*self.model.table.parts)).where(self.kind.now)
        return sorted_rows(rows.select(*names))

    @property
    def own(self) -> tuple[str, ...]:
        more = {1: (), 2: ("_valid_from", "_valid_to", "_is_current"), 3: ("_valid_from", "_valid_to")}
        return ("id", "a", "n", *more[len(self.kind.key)])

    def check(self, events: Sequence[Event], rows: Callable[[Sequence[Event]], Rows] | None = None) -> None:
        """The table is what the events give, and its readers are what it is."""
        table = self.columns(*self.own)
        assert table == (rows or self.kind.rows)(events), f"seed {self.seed}"
        for reader in (self.copy, self.groups):
            self.lake.run(reader)
        own = (*self.kind.key, "a", "n")
        everything, copied = (self.lake.spark.table(quoted(*model.table.parts)) for model in (self.model, self.copy))
        assert sorted_rows(copied.select(*own)) == sorted_rows(everything.select(*own)), f"seed {self.seed}"
        values = [(row.a, row.n) for row in everything.select("a", "n").collect()]
        assert self.lake.rows(self.groups) == grouped(values), f"seed {self.seed}"

    def replay(self, version: int) -> None:
        """The changes since a version, applied to what the table was then, give what it is now."""
        own = (*self.kind.key, "a", "n")
        then = self.lake.spark.sql(
            f"select * from {quoted(*self.model.table.changes.parts)} version as of {version}"
        ).selectExpr("*", "_last_updated_sequence_number as at")
        rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        log = [row.asDict() for row in then.orderBy("at", "_seq").collect()]
        log += read_changes_between(self.lake.session_of(self.model), version, self.lake.head(self.model), 1000)
        for row in log:
            key = tuple(row[part] for part in self.kind.key)
            rows.pop(key, None)
            if row["_action"] != "delete":
                rows[key] = tuple(row[part] for part in own)
        table = self.lake.spark.table(quoted(*self.model.table.parts)).select(*own)
        assert sorted(rows.values(), key=repr) == sorted_rows(table), f"seed {self.seed}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "merge", "seed"),
    [(kind, merge, seed) for seed, (kind, merge) in enumerate(zip(KINDS, ["on_write", "on_read"] * 4, strict=True), 1)],
)
def test_a_table_stays_what_its_events_give_while_columns_versions_and_rules_change(
    lake: Warehouse, kind: str, merge: str, seed: int
) -> None:
    life = Life(lake, KINDS[kind], merge, seed)
    for count in (12, 8):
        life.arrive(count)
        life.run()
    life.check(life.events)
    assert lake.broken(life.model) == lake.left_out(life.model) == []
    good, kept = lake.head(life.model), list(life.events)

    life.model = life.made(WIDE, **life.kind.more)
    life.arrive(8)
    assert life.run() == ("full" if life.kind.more else "incremental")
    life.check(life.events)
    big = {row for row in life.columns("a", "big") if row[1] != (row[0] and row[0].upper())}
    assert {row[1] for row in big} <= {None}, f"seed {seed}"
    assert lake.broken(life.model) == []
    assert [text for text in lake.left_out(life.model) if "big came later" in text] or not big
    assert not (life.kind.more and big)

    restore_version(lake.session_of(life.model), good)
    life.check(kept)
    assert set(life.columns("big")) <= {(None,)}
    before = len(life.events)
    life.arrive(6, late=False)
    assert life.run() == "incremental"
    life.check([*kept, *life.events[before:]])
    assert lake.broken(life.model) == []

    life.replay(good)
    ruled = life.made(WIDE, **{**life.kind.more, **life.kind.rule})
    with pytest.raises(ConfigError, match="the table was restored to an older version"):
        lake.run(ruled)
    assert lake.run(life.model, full_refresh=True).mode == "full"
    life.check(life.events)
    compact_table(lake.session_of(life.model), "full")
    life.check(life.events)
    assert lake.broken(life.model) == lake.left_out(life.model) == []

    life.model = ruled
    assert [text for text in lake.left_out(ruled) if "changed since the last run; run it first" in text]
    changed = lake.refresh_of(ruled).planner.explain_refresh().decision.because
    assert all(key in changed for key in life.kind.rule)
    outcome = lake.run(ruled)
    assert (outcome.mode, outcome.reason, outcome.because) == ("full", "QUERY_CHANGED", changed)
    life.check(life.events, life.kind.then)
    life.arrive(6)
    assert life.run() == "incremental"
    life.check(life.events, life.kind.then)
    assert lake.run(ruled, refuse).mode == "unchanged"
    assert lake.left_out(ruled) == []
    for model in (ruled, life.copy, life.groups):
        assert lake.broken(model) == []


@pytest.mark.in_turn
def test_a_rule_that_continues_applies_to_later_events_alone(lake: Warehouse) -> None:
    model = cdc(lake, sql=PLAIN, merge_columns={"n": "sum"})
    lake.append("events", [Event(1, "x", 2, "u", 1), Event(1, "x", 3, "u", 2)], EVENTS)
    lake.run(model)
    later = cdc(lake, sql=PLAIN, merge_columns={"n": "max"}, on_configuration_change="continue")
    assert lake.run(later, refuse).mode == "unchanged"
    lake.append("events", [Event(1, "x", 4, "u", 3), Event(2, "y", 4, "u", 4)], EVENTS)
    assert lake.run(later).mode == "incremental"
    assert lake.rows(later) == [(1, "x", 5), (2, "y", 4)]
    assert [text for text in lake.broken(later) if text.startswith("the query gives the table")]
    assert lake.actions(lake.run(later, full_refresh=True)) == (0, 1, 0)
    assert lake.rows(later) == [(1, "x", 4), (2, "y", 4)]


@pytest.mark.in_turn
def test_the_order_of_events_grows_and_is_refused_where_it_becomes_another_one(lake: Warehouse) -> None:
    sql = "select id, a, n, op, lsn, timestamp_seconds(lsn) as at from {changes(events)}"
    config = {"exclude_columns": ["op", "lsn", "at"]}
    model = cdc(lake, sql=sql, **config)
    lake.append("events", [Event(1, "x", 2, "u", 1), Event(2, "x", 3, "u", 2)], EVENTS)
    lake.run(model)
    wide = cdc(lake, sql=sql.replace(" lsn,", " 3000000000 + lsn as lsn,"), **config)
    lake.append("events", [Event(1, "y", 2, "u", 3)], EVENTS)
    lake.run(wide)
    assert lake.rows(wide) == [(1, "y", 2), (2, "x", 3)]
    assert [row["_seq"] for row in lake.log(wide)] == [1, 2, 3_000_000_003]
    with pytest.raises(ConfigError, match=r"`_seq` is a bigint\n  in the model: `sequence_by: at` is a timestamp"):
        lake.run(cdc(lake, sql=sql, sequence_by="at", **config))
    assert lake.rows(wide) == [(1, "y", 2), (2, "x", 3)]
    ordered = cdc(lake, sql=sql, sequence_by="n", **config)
    outcome = lake.run(ordered)
    assert (outcome.mode, outcome.because) == ("full", "sequence_by changed")
    assert lake.broken(ordered) == lake.left_out(ordered) == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["append_new_columns", "sync_all_columns"])
def test_a_column_that_goes_takes_its_function_along_and_comes_back_as_another_one(
    lake: Warehouse, policy: str
) -> None:
    sql, functions = "select id, a, n, n as m, op, lsn from {changes(events)}", {"n": "sum", "m": "max"}
    model = cdc(lake, sql=sql, merge_columns=functions, on_schema_change=policy)
    lake.append("events", [Event(1, "x", 2, "u", 1), Event(1, "y", 5, "u", 2), Event(2, "x", 3, "u", 3)], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "y", 7, 5), (2, "x", 3, 3)]
    narrow = "select id, n, op, lsn from {changes(events)}"
    model = cdc(lake, sql=narrow, merge_columns={"n": "sum"}, on_schema_change=policy)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.because, lake.actions(outcome)) == ("full", "merge_columns: m changed", (0, 0, 0))
    lake.append("events", [Event(1, None, 1, "u", 4), Event(3, "z", 1, "u", 5), Event(2, None, 1, "u", 0)], EVENTS)
    assert lake.run(model).mode == "incremental"
    kept = policy == "append_new_columns"
    sums = [(1, 8), (2, 4), (3, 1)]
    assert [row[:1] + row[-1:] if not kept else (row[0], row[2]) for row in lake.rows(model)] == sums
    if kept:
        assert [(row[1], row[3]) for row in lake.rows(model)] == [("y", 5), ("x", 3), (None, None)]
    assert lake.broken(model) == lake.left_out(model) == []
    model = cdc(lake, sql=sql, merge_columns=functions, on_schema_change=policy)
    assert lake.run(model).mode == "full"
    back = lake.spark.table(quoted(*model.table.parts)).select("id", "a", "n", "m")
    assert sorted_rows(back) == [(1, None, 8, 5), (2, "x", 4, 3), (3, "z", 1, 1)]
    assert lake.broken(model) == lake.left_out(model) == []
