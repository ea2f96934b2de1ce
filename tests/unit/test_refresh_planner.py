"""Plans of runs whose upstreams another invocation refreshes at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from arctic_runtime import refresh_planner
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import QUERY
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.profile import Profile
from arctic_runtime.refresh_planner import RefreshPlanner
from tests.unit.plan.refresh.test_consistency import BELOW, BESIDE, MIDDLE, a_model_state, a_run, at
from tests.unit.plan.refresh.test_decide import UP, a_model, a_source, built, v

SQL = "select a.id, b.v from {} a join {} b on a.id = b.id"
LAKE = {"type": "rest", "uri": "http://lake"}
COLUMNS = (Column("id", "int"), Column("v", "int"))


class Tables:
    """Tables of a catalog, which another invocation changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: dict[str, SourceState] = {}
        monkeypatch.setattr(refresh_planner, "check_needs", lambda *_: None)
        monkeypatch.setattr(refresh_planner, "read_view_sql", lambda *_: None)
        for function in ("observe_readable", "observe_source"):
            monkeypatch.setattr(refresh_planner, function, lambda _, table: self.states.get(str(table)))
        self._monkeypatch = monkeypatch

    def put(self, *states: SourceState) -> None:
        self.states |= {str(state.name): replace(state, columns=COLUMNS, key=("id",)) for state in states}

    def put_source(self, number: int) -> None:
        self.put(a_source(*range(1, number + 1)))

    def put_model(self, name: TableName, *runs: Mapping[TableName, int]) -> None:
        self.put(a_model_state(name, *(a_run(name, number, reads) for number, reads in enumerate(runs, 1))))

    def plan(self, first: TableName, second: TableName, pins: PinnedSnapshots) -> dict[str, int]:
        """Plans a model over two tables that has read the first version of both; returns the versions it reads next."""
        model = a_model(SQL.format(first, second), refresh="incremental")
        planner = RefreshPlanner(model, CatalogReader(Profile("lake", LAKE)), pins=pins)
        query = compute_fingerprint(model, planner.observe_upstreams())
        state: TableState = built(model, {str(name): at(1, name) for name in (first, second)}, **{QUERY: query})
        self._monkeypatch.setattr(refresh_planner, "observe_model", lambda *_: state)
        decision = planner.plan_refresh().decision
        assert decision.mode in ("incremental", "unchanged")
        return {name: version.sequence for name, version in decision.consumed.items()}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    made = Tables(monkeypatch)
    made.put_source(1)
    for name in (MIDDLE, BESIDE):
        made.put_model(name, {UP: 1})
    return made


def pin(tables: Tables, *names: TableName) -> PinnedSnapshots:
    pins = PinnedSnapshots()
    for name in names:
        pins.get_first(name, lambda name=name: tables.states[str(name)])  # type: ignore[misc]
    return pins


def test_an_upstream_that_another_invocation_refreshed_is_read_with_what_it_has_read(tables: Tables) -> None:
    pins = pin(tables, UP)
    tables.put_source(3)
    tables.put_model(MIDDLE, {UP: 1}, {UP: 3})
    assert tables.plan(UP, MIDDLE, pins) == {str(UP): 3, str(MIDDLE): 2}


def test_an_upstream_that_is_newer_than_any_version_that_can_be_read_with_it_is_a_conflict(tables: Tables) -> None:
    pins = pin(tables, UP)
    tables.put_model(MIDDLE, {UP: 1}, {UP: 3})
    tables.put_source(4)
    with pytest.raises(CommitConflict, match="another invocation brought its upstream") as conflict:
        tables.plan(UP, MIDDLE, pins)
    assert conflict.value.actual == f"two versions of {UP}, which this table would mix"


def test_two_upstreams_of_which_another_invocation_refreshed_one_are_a_conflict(tables: Tables) -> None:
    tables.put_source(2)
    pins = pin(tables, UP)
    tables.put_model(MIDDLE, {UP: 1}, {UP: 2})
    tables.put_model(BESIDE, {UP: 1}, {UP: 3})
    with pytest.raises(CommitConflict):
        tables.plan(MIDDLE, BESIDE, pins)
    tables.put_model(MIDDLE, {UP: 1}, {UP: 2}, {UP: 3})
    assert tables.plan(MIDDLE, BESIDE, PinnedSnapshots()) == {str(MIDDLE): 3, str(BESIDE): 2}


def test_models_between_that_no_model_of_the_invocation_reads_are_looked_at(tables: Tables) -> None:
    tables.put_model(BELOW, {MIDDLE: 1})
    pins = pin(tables, UP)
    tables.put_source(3)
    tables.put_model(MIDDLE, {UP: 1}, {UP: 3})
    tables.put_model(BELOW, {MIDDLE: 1}, {MIDDLE: 2})
    assert tables.plan(UP, BELOW, pins) == {str(UP): 3, str(BELOW): 2}


def test_an_upstream_with_older_rows_is_read_as_it_is(tables: Tables) -> None:
    tables.put_source(2)
    assert tables.plan(UP, MIDDLE, PinnedSnapshots()) == {str(UP): 2, str(MIDDLE): 1}
    assert tables.states[str(UP)].version == v(2)
