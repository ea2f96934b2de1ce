"""Every effect may be the last of a process, find a full disk, or lose its answer; done again, all is exact.

What is tested follows `EFFECTS`: a name without a scenario, or one that its scenario does not reach, is a failure.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.effects import EFFECTS, set_failpoint
from arctic_runtime.errors import ArcticError, CatalogError
from arctic_runtime.model.properties import MODE, OFFSETS
from arctic_runtime.spark.maintenance.compaction import compact_table
from tests.crash.killing import Child
from tests.crash.scenarios import REACHED, SCENARIOS, Scenario, later, namespace_of, rounds
from tests.spark.prebuilt import Prebuilt, folder_of
from tests.spark.warehouse import Rows, Warehouse, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.model.table import Model
    from arctic_runtime.spark.engine.session import SparkEnvironment

Shown = dict[str, Rows]


@dataclass(frozen=True)
class Case:
    """A scenario that was built in a namespace of its own, and what its tables show before anything is done."""

    scenario: Scenario
    prebuilt: Prebuilt
    before: Shown


Cases = Callable[[str], Case]


@pytest.fixture(scope="module")
def cases(
    environment: SparkEnvironment, reader: CatalogReader, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Cases:
    """Scenarios by their names, each built when it is asked for first."""
    copies = tmp_path_factory.mktemp("copies")
    built: dict[str, Case] = {}

    def case(key: str) -> Case:
        if key not in built:
            spark.sql(f"create namespace {environment.profile.catalog}.{namespace_of(key)}")
            lake, scenario = Warehouse(environment, reader, spark, namespace_of(key)), SCENARIOS[key]
            prebuilt = Prebuilt.of(lake, scenario.build, copies)
            built[key] = Case(scenario, prebuilt, shown(scenario, lake))
        return built[key]

    return case


def shown(scenario: Scenario, lake: Warehouse) -> Shown:
    """What readers see of each table that is there."""
    there = lake.reader.list_relations(lake.namespace)
    return {name: sorted_rows(lake.spark.table(lake.sql_name(name))) for name in scenario.tables if name in there}


def test_every_effect_has_a_scenario_and_a_round_in_which_a_process_dies_before_it() -> None:
    assert set(REACHED) == set(EFFECTS)
    assert sorted(name for parks in rounds() for _, name in parks) == sorted(EFFECTS)


@pytest.mark.in_turn
def test_rows_of_a_table_a_sum_and_a_maximum_are_forgotten_in_one_request(cases: Cases) -> None:
    """Without a fault, as the scenarios with one run among the slow tests."""
    case = cases("forgotten_rows")
    is_exact_when_it_is_done_again(case, case.prebuilt.restore(), [])


class Lost:
    """A failpoint that loses the first answer of each effect: it takes place, and an error comes in its place."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str, action: Callable[[], Any]) -> Any:
        done = action()
        if name not in self.names:
            self.names.append(name)
            raise CatalogError(f"The answer of {name} was lost.")
        return done


class Full:
    """A failpoint at which the disk is full the first time that each effect writes."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str, action: Callable[[], Any]) -> Any:
        if name not in self.names:
            self.names.append(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return action()


QUICK = ("first_run", "unmerged_changes", "aggregate_state", "base_rewrite", "ingestion")
"""Scenarios that have the effects of most runs."""
QUICKEST = ("first_run", "ingestion")
"""Those of them whose answers get lost in every run of the tests."""


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=[] if key in QUICKEST else [pytest.mark.slow]) for key in SCENARIOS]
)
def test_answers_that_get_lost_one_after_the_other_lose_and_repeat_nothing(cases: Cases, key: str) -> None:
    """Where a lost answer spares the effects after it, these lose theirs another time, from the start."""
    is_exact_after_faults(cases(key), Lost())


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=[] if key == "unmerged_changes" else [pytest.mark.slow]) for key in SCENARIOS]
)
def test_a_disk_that_is_full_at_one_effect_after_the_other_loses_and_repeats_nothing(cases: Cases, key: str) -> None:
    is_exact_after_faults(cases(key), Full())


def is_exact_after_faults(case: Case, fault: Lost | Full) -> None:
    """Each effect of a scenario has the fault once; where one spares those after it, they have it from the start."""
    wanted = set(case.scenario.effects)
    while left := wanted - set(fault.names):
        lake = case.prebuilt.restore()
        is_exact_when_it_is_done_again(case, lake, list(shown_after_faults(case.scenario, lake, fault)))
        assert left > wanted - set(fault.names), f"not reached: {left}"


def shown_after_faults(scenario: Scenario, lake: Warehouse, fault: Lost | Full) -> Iterator[Shown]:
    """What readers see after each fault, until a scenario ends without one."""
    while True:
        before = len(fault.names)
        try:
            with set_failpoint(fault):
                scenario.act(lake)
        except ArcticError:
            assert len(fault.names) > before
            yield shown(scenario, lake)
        else:
            return


def quick_round_first() -> tuple[tuple[tuple[str, str], ...], ...]:
    """The rounds; of the first one the quick scenarios are a round of their own."""
    first, *later = rounds()
    quick = tuple(park for park in first if park[0] in QUICK)
    return quick, tuple(park for park in first if park not in quick), *later


def list_rounds(is_slow: bool) -> list[Any]:
    """The rounds as parameters of a test; all are slow, or all but the quick one."""
    rounds = enumerate(quick_round_first())
    return [
        pytest.param(parks, marks=[pytest.mark.slow] if place or is_slow else [], id=str(place))
        for place, parks in rounds
    ]


@dataclass(frozen=True)
class Parked:
    """A process that has stopped before an effect of each scenario of a round, and the warehouses of the scenarios."""

    child: Child
    cases: dict[str, Case]
    lakes: dict[str, Warehouse]

    @classmethod
    def start(cls, cases: Cases, parks: tuple[tuple[str, str], ...]) -> Parked:
        chosen = {key: cases(key) for key, _ in parks}
        lakes = {key: case.prebuilt.restore() for key, case in chosen.items()}
        arguments = {"warehouse": str(folder_of(lakes[parks[0][0]]).parent), "parks": parks}
        child = Child.start("tests.crash.parked", arguments, "parked")
        if list(child.lines) != [name for _, name in parks]:
            child.kill()
            raise AssertionError(f"reached: {child.lines}")
        return cls(child, chosen, lakes)

    def is_exact(self) -> None:
        for key, case in self.cases.items():
            is_exact_when_it_is_done_again(case, self.lakes[key], [shown(case.scenario, self.lakes[key])])


Parks = tuple[tuple[str, str], ...]


@pytest.mark.in_turn
@pytest.mark.parametrize("parks", list_rounds(is_slow=False))
def test_a_process_that_is_killed_before_an_effect_loses_and_repeats_nothing(cases: Cases, parks: Parks) -> None:
    """One process, and its Java, die for all scenarios of a round at once."""
    parked = Parked.start(cases, parks)
    parked.child.kill()
    parked.is_exact()


@pytest.mark.parametrize("parks", list_rounds(is_slow=True))
def test_a_process_whose_python_is_killed_before_an_effect_takes_its_java_along(cases: Cases, parks: Parks) -> None:
    parked = Parked.start(cases, parks)
    parked.child.kill_python()
    parked.is_exact()


@pytest.mark.parametrize("parks", list_rounds(is_slow=True))
def test_a_process_whose_java_is_killed_before_an_effect_ends_with_an_error_of_ours(cases: Cases, parks: Parks) -> None:
    """What needs Java no more after the effect is done; the rest says what happened."""
    parked = Parked.start(cases, parks)
    ends = parked.child.kill_java()
    assert {name: end for name, end in ends.items() if not end.startswith(("done", "typed"))} == {}
    parked.is_exact()


@pytest.mark.parametrize("parks", list_rounds(is_slow=True))
def test_a_process_that_paused_before_an_effect_loses_and_repeats_nothing(cases: Cases, parks: Parks) -> None:
    """Meanwhile another process does the same; the first then does it again, or says that it came too late."""
    parked = Parked.start(cases, parks)
    try:
        for key, case in parked.cases.items():
            case.scenario.act(parked.lakes[key])
    finally:
        ends = parked.child.go_on()
    assert {name: end for name, end in ends.items() if not end.startswith(("done", "typed"))} == {}
    parked.is_exact()


def is_exact_when_it_is_done_again(case: Case, lake: Warehouse, seen: Iterable[Shown]) -> None:
    """Readers have seen the tables as they were before, between or after; then they are exact, and nothing is left."""
    case.scenario.act(lake)
    after = shown(case.scenario, lake)
    assert set(after) == set(case.scenario.tables)
    for table in case.scenario.tables:
        for rows in (state.get(table) for state in seen):
            assert rows in (case.before.get(table), *case.scenario.between, after[table])
    for model in case.scenario.models(lake):
        assert lake.broken(model) == []
        assert consumes_once(lake, model)
        compact_table(lake.session_of(model, now=later()), "auto")
        assert lake.branches(model) == set()


def consumes_once(lake: Warehouse, model: Model) -> bool:
    """Whether no two runs of a table of events took the same ones."""
    changes = lake.state(model).changes
    assert changes is not None
    consumed = [
        commit.summary[OFFSETS] for commit in changes.commits if commit.summary.get(MODE) in ("create", "incremental")
    ]
    return model.config.input != "changes" or len(consumed) == len(set(consumed))
