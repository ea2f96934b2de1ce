"""Two runs of one model at once: the one that commits second keeps its rows, but for keys that both had events of."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from arctic_runtime.effects import set_failpoint
from tests.crash.dying import dying
from tests.spark.models.test_partial_events import FLOWS, ORDERS, PROFILES, UNION, wide_rows
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model
    from arctic_runtime.refresh_planner import Outcome

Event = tuple[Any, ...]
Rows = list[tuple[Any, ...]]

PLAIN = "id int, v string, n int, op string, at int"
BOTH = "select id, v, n, op, at from {changes(profiles)} union all select id, v, n, op, at from {changes(orders)}"
OVERTAKEN = ["commit.branch", "commit.append", "commit.publish"] * 2 + ["commit.drop_branch"] * 2
"""What a run does that another one overtakes once: it publishes again, without having started again."""


class Sources:
    """Two sources with columns of their own, the events that came so far, and the model that reads them."""

    columns: ClassVar[Mapping[str, str]] = {"profiles": PROFILES, "orders": ORDERS}

    def __init__(self, lake: Warehouse, **config: Any) -> None:
        self.lake = lake
        self.events: dict[str, list[Event]] = {"profiles": [], "orders": []}
        self.model = self.made(lake, **config)

    def made(self, lake: Warehouse, **config: Any) -> Model:
        declared = {"primary_key": "id", "input": "changes", "sequence_by": FLOWS, "delete_when": "op = 'd'"}
        return lake.model("wide", UNION, exclude_columns="op", columns_to_update="changed", **declared, **config)

    def come(self, source: str, *events: Event) -> None:
        self.lake.append(source, events, self.columns[source])
        self.events[source] += events

    def event(self, chance: random.Random, source: str, at: int) -> Event:
        first, second = FLOWS["profile_at" if source == "profiles" else "order_at"]
        value = chance.choice([None, 1, 2]) if source == "orders" else chance.choice([None, "p", "q"])
        has = chance.choice([None, [], [first], [second]])
        return (chance.randrange(8), chance.choice([None, "x", "y"]), value, chance.choice("uuuud"), at, has)

    @property
    def rows(self) -> Rows:
        return wide_rows({"profile_at": self.events["profiles"], "order_at": self.events["orders"]})

    def planned(self) -> Callable[[], Outcome]:
        """A run that has looked at table and sources already, in a session of its own."""
        session = self.lake.environment.new_session()
        refresh = self.lake.refresh_of(self.model, lambda: session)
        return partial(refresh.run_refresh, refresh.planner.plan_refresh())


class Newest(Sources):
    """The newest event of either source is the row; a delete may come before what it deletes."""

    columns: ClassVar[Mapping[str, str]] = dict.fromkeys(("profiles", "orders"), PLAIN)

    def made(self, lake: Warehouse, **config: Any) -> Model:
        declared = {"primary_key": "id", "input": "changes", "sequence_by": "at", "delete_when": "op = 'd'"}
        return lake.model("wide", BOTH, exclude_columns="op", **declared, **config)

    def event(self, chance: random.Random, source: str, at: int) -> Event:
        return (chance.randrange(8), chance.choice("xy"), chance.randrange(2), chance.choice("uuuud"), at)

    @property
    def rows(self) -> Rows:
        newest: dict[int, Event] = {}
        for event in sorted(
            (event for events in self.events.values() for event in events), key=lambda event: event[-1]
        ):
            newest[event[0]] = event
        return sorted(((*event[:3], event[4]) for event in newest.values() if event[3] != "d"), key=repr)


class Sums(Newest):
    """Each event counts once."""

    def made(self, lake: Warehouse, **config: Any) -> Model:
        sql = "select id, n, at from {changes(profiles)} union all select id, n, at from {changes(orders)}"
        declared = {"primary_key": "id", "input": "changes", "sequence_by": "at", "merge_columns": {"n": "sum"}}
        return lake.model("wide", sql, **declared, **config)

    @property
    def rows(self) -> Rows:
        sums: dict[int, tuple[int, int]] = {}
        for key, _, n, _, at in (event for events in self.events.values() for event in events):
            total, newest = sums.get(key, (0, 0))
            sums[key] = (total + n, max(newest, at))
        return sorted(((key, *value) for key, value in sums.items()), key=repr)


@contextmanager
def before_each_publication(*acts: Callable[[], object]) -> Iterator[list[str]]:
    """A run stands still where it is about to publish, each time while another one acts; gives the run's effects."""
    waiting, effects, acting = list(acts), list[str](), list[str]()

    def pausing(name: str, action: Callable[[], Any]) -> Any:
        if acting:
            return action()
        effects.append(name)
        if name == "commit.publish" and waiting:
            acting.append(name)
            waiting.pop(0)()
            acting.clear()
        return action()

    with set_failpoint(pausing):
        yield effects


@contextmanager
def after_first(effect: str, act: Callable[[], object]) -> Iterator[None]:
    """A run stands still after its first effect of this name while another one acts."""
    waiting = [act]

    def pausing(name: str, action: Callable[[], Any]) -> Any:
        result = action()
        if name == effect and waiting:
            waiting.pop()()
        return result

    with set_failpoint(pausing):
        yield
    assert not waiting


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_runs_of_two_flows_at_once_both_commit_and_their_columns_are_exact(lake: Warehouse, merge: str) -> None:
    sources = Sources(lake, merge=merge)
    model = sources.model
    sources.come("profiles", *[(key, f"n{key}", f"e{key}", "u", key, None) for key in range(6)])
    sources.come("orders", (0, "o0", 1, "u", 1, None))
    lake.run(model)
    sources.come("profiles", (1, "one", None, "u", 11, None), (2, None, None, "u", 12, ["email"]))
    other = sources.planned()
    sources.come("orders", (2, "o2", 2, "u", 21, None), (3, "o3", 3, "u", 22, None), (9, "o9", 9, "u", 23, None))
    others: list[Outcome] = []
    with before_each_publication(lambda: others.append(other())) as effects:
        outcome = lake.run(model)
    assert lake.actions(others[0]) == (0, 2, 0)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (1, 2, 0))
    assert "another run committed meanwhile" in outcome.because
    assert effects[: len(OVERTAKEN)] == OVERTAKEN
    assert lake.rows(model) == sources.rows
    assert lake.branches(model) == set()
    assert lake.broken(model) == lake.left_out(model) == []
    both = [row for row in lake.log(model) if row["id"] == 2][1:]
    assert [row["_before"]["email"] for row in both] == ["e2", None]
    assert lake.run(model).mode == "unchanged"


def one_customer(lake: Warehouse) -> Sources:
    """A table with a row that has a profile and an order."""
    sources = Sources(lake)
    sources.come("profiles", (1, "a", "x", "u", 1, None))
    sources.come("orders", (1, "o", 1, "u", 1, None))
    lake.run(sources.model)
    return sources


@pytest.mark.slow
def test_a_run_of_which_another_read_everything_finds_nothing_left(lake: Warehouse) -> None:
    sources = one_customer(lake)
    sources.come("profiles", (1, "b", "y", "u", 2, None))
    session = lake.environment.new_session()

    def all_of_it() -> None:
        sources.come("orders", (1, "p", 2, "u", 2, None))
        lake.run(sources.model, lambda: session)

    with before_each_publication(all_of_it):
        assert lake.run(sources.model).mode == "unchanged"
    assert lake.rows(sources.model) == sources.rows
    assert lake.broken(sources.model) == []


@pytest.mark.slow
def test_a_run_that_a_full_refresh_overtakes_starts_again(lake: Warehouse) -> None:
    sources = one_customer(lake)
    sources.come("profiles", (2, "b", "y", "u", 2, None))
    session = lake.environment.new_session()
    full = lake.refresh_of(sources.model, lambda: session, full_refresh=True)
    planned = full.planner.plan_refresh()
    sources.come("orders", (1, "p", 2, "u", 2, None))
    with before_each_publication(lambda: full.run_refresh(planned)) as effects:
        outcome = lake.run(sources.model)
    assert effects[3] == "commit.drop_branch"
    assert outcome.because == ""
    assert lake.rows(sources.model) == sources.rows
    assert lake.broken(sources.model) == []


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("merge", "last"), [("on_write", "base.overwrite"), pytest.param("on_read", "view.replace", marks=pytest.mark.slow)]
)
def test_a_run_that_is_overtaken_while_it_finishes_the_work_of_another_reads_no_event_again(
    lake: Warehouse, merge: str, last: str
) -> None:
    sources = Sums(lake, merge=merge)
    sources.come("profiles", (1, "x", 1, "u", 1))
    sources.come("orders", (1, "x", 2, "u", 2))
    lake.run(sources.model)
    sources.come("profiles", (1, "x", 4, "u", 3))
    died = dying(3, sources.planned())
    assert died is not None
    assert died.effects[-1] == "commit.publish"
    sources.come("orders", (1, "x", 8, "u", 4))
    session, overtaken = lake.environment.new_session(), sources.planned()
    with after_first(last, lambda: lake.run(sources.model, lambda: session)):
        outcome = overtaken()
    assert lake.rows(sources.model) == sources.rows
    assert lake.broken(sources.model) == []
    assert outcome.mode == "unchanged"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "config", "seed"),
    [
        (Sources, {"merge": "on_read"}, 1),
        (Newest, {"merge": "on_write"}, 2),
        (Newest, {"merge": "on_read", "keep": "all"}, 3),
        (Newest, {"merge": "on_read", "changelog": "input"}, 4),
        (Newest, {"merge": "on_write", "on_match": "update"}, 5),
        (Sums, {"merge": "on_write"}, 6),
    ],
)
def test_runs_that_overtake_each_other_apply_each_event_once(
    lake: Warehouse, kind: type[Sources], config: dict[str, Any], seed: int
) -> None:
    chance, sources = random.Random(seed), kind(lake, **config)
    places = iter(chance.sample(range(1000), 1000))

    def news() -> None:
        source = chance.choice(("profiles", "orders"))
        sources.come(source, *[sources.event(chance, source, next(places)) for _ in range(chance.randrange(1, 5))])

    for source in ("profiles", "orders"):
        sources.come(source, sources.event(chance, source, next(places)))
    lake.run(sources.model)
    for number in range(4):
        news()
        first = sources.planned()
        news()
        second = sources.planned()
        news()
        with before_each_publication(first, second):
            lake.run(sources.model)
        lake.run(sources.model)
        assert lake.rows(sources.model) == sources.rows, f"seed {seed}, round {number}"
    assert lake.branches(sources.model) == set()
    assert lake.broken(sources.model) == [], f"seed {seed}"


@pytest.mark.slow
def test_a_run_that_dies_while_it_publishes_again_is_followed_by_one_that_does_the_rest(lake: Warehouse) -> None:
    sources, number = Sources(lake, merge="on_read"), 0
    sources.come("profiles", (0, "a", "x", "u", 0, None))
    sources.come("orders", (0, "o", 1, "u", 0, None))
    lake.run(sources.model)
    died = True
    while died:
        number += 1
        sources.come("profiles", (1, f"n{number}", "x", "u", number, None))
        other = sources.planned()
        sources.come("orders", (number % 2, f"o{number}", number, "u", number, None))
        mine = sources.planned()
        other()
        died = dying(number, mine) is not None
        lake.run(sources.model)
        assert lake.rows(sources.model) == sources.rows
        assert lake.broken(sources.model) == []
    assert number > len(OVERTAKEN)
