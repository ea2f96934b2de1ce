"""Operations on one table, in many orders in which they can touch the catalog: nothing is lost, half or twice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import get_args

import pytest

from arctic_runtime.model.properties import RUN
from arctic_runtime.model.run_summary import RunSummary, get_offsets
from arctic_runtime.model.table import Merge
from tests.unit.fake_lake import Lake, Operation, applied

OPERATIONS: Mapping[str, Callable[[Lake], Operation]] = {
    "run": lambda lake: lake.run(),
    "feed": lambda lake: lake.feed({1: "fed", 7: ""}),
    "compact": lambda lake: lake.compact(),
    "expire": lambda lake: lake.expire(),
    "restore": lambda lake: lake.restore(lake.history[2].id),
}
PAIRS = tuple(itertools.combinations_with_replacement(OPERATIONS, 2))
RUNS = [("run", "feed", "feed"), ("feed", "feed", "feed")]
"""One run is left behind by two others, the second of which drops the first one's branch."""
FEW_ORDERS = 3_500


@cache
def build_lake(merge: Merge) -> Lake:
    """A table of three versions, and events that no run has read yet."""
    lake = Lake(merge)
    for events in ({1: "a", 2: "b", 3: "c", 4: "d"}, {1: "A"}, {2: "", 5: "e"}):
        lake.load(events)
        finish(lake.run())
    lake.load({3: "C", 6: "f", **dict.fromkeys(range(7, 12), "g")})
    return lake


def finish(operation: Operation) -> None:
    for _ in operation:
        pass


def count_touches(merge: Merge, name: str) -> int:
    """How often an operation stops where nobody is in its way; the last stretch counts as well."""
    return sum(1 for _ in OPERATIONS[name](build_lake(merge).copy())) + 1


def orders(counts: Sequence[int], switches: int) -> Iterator[tuple[int, ...]]:
    """All orders of so many touches of each of some operations, in which these take turns at most so often."""

    def ahead(left: tuple[int, ...], turn: int, switches: int) -> Iterator[tuple[int, ...]]:
        if not any(left):
            yield ()
        for own in range(len(left)):
            needed = own != turn
            if left[own] and switches >= needed:
                rest = tuple(more - (place == own) for place, more in enumerate(left))
                yield from ((own, *others) for others in ahead(rest, own, switches - needed))

    for first in range(len(counts)):
        yield from (order for order in ahead(tuple(counts), first, switches) if order[0] == first)


def check_shown(lake: Lake) -> None:
    """Readers see a version as it was, whoever is at work."""
    version, rows = lake.shown()
    assert version is not None
    assert rows == lake.folded(version.sequence)


def check_history(lake: Lake) -> None:
    """Every change row tells the row as it was, and every event was read once."""
    rows: dict[int, str] = {}
    offsets = [0]
    for snap in lake.history:
        assert [(key, rows.get(key)) for key, *_ in snap.content] == [(key, before) for key, before, _ in snap.content]
        rows = applied(rows, snap.content)
        if RUN in snap.summary:
            offsets.append(next(iter(get_offsets(RunSummary.decode(snap.summary)).values())).sequence)
            restored = snap.summary["arctic.reason"] == "RESTORED"
            assert offsets[-1] == offsets[-2] if restored else offsets[-1] > offsets[-2]
    assert offsets[-1] == lake.source.sequence


def play(lake: Lake, operations: Sequence[Operation], order: tuple[int, ...]) -> None:
    """Both go on in turn; what is left of them where one had to start over follows."""
    for own in order:
        next(operations[own], None)
        check_shown(lake)
    for operation in operations:
        for _ in operation:
            check_shown(lake)


def choose_switches(counts: Sequence[int]) -> int:
    """Number of switches with which all orders of two operations are played, if there are few; else four.

    Longer operations have up to two billion orders. Few switches show nearly all errors: Musuvathi and Qadeer,
    "Iterative Context Bounding for Systematic Testing of Multithreaded Programs", PLDI 2007.
    """
    return sum(counts) if math.comb(sum(counts), counts[0]) <= FEW_ORDERS else 4


def check_orders(merge: Merge, names: Sequence[str], switches: int | None = None) -> int:
    counts = [count_touches(merge, name) for name in names]
    played = 0
    for order in orders(counts, choose_switches(counts) if switches is None else switches):
        lake = build_lake(merge).copy()
        play(lake, [OPERATIONS[name](lake) for name in names], order)
        finish(lake.run())
        check_shown(lake)
        check_history(lake)
        assert lake.shown()[1] == lake.folded(lake.history[-1].sequence)
        played += 1
    return played


@pytest.mark.parametrize("merge", get_args(Merge))
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_operations_that_take_turns_leave_exactly_what_one_after_the_other_would(pair, merge) -> None:
    assert check_orders(merge, pair, switches=2) > 5


@pytest.mark.parametrize("merge", get_args(Merge))
@pytest.mark.parametrize("runs", RUNS, ids="-".join)
def test_a_run_that_two_others_overtake_commits_nothing_on_top_of_theirs(runs, merge) -> None:
    assert check_orders(merge, runs, switches=3) > 100


@pytest.mark.slow
@pytest.mark.parametrize("others", PAIRS, ids="-".join)
@pytest.mark.parametrize("merge", get_args(Merge))
def test_three_operations_that_take_turns_leave_exactly_what_one_after_the_other_would(merge, others) -> None:
    assert check_orders(merge, ("run", *others), switches=3) > 100


@pytest.mark.slow
@pytest.mark.parametrize("merge", get_args(Merge))
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_operations_that_take_turns_often_leave_exactly_what_one_after_the_other_would(pair, merge) -> None:
    assert check_orders(merge, pair) > 30
