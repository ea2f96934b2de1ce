"""Settling: base and view catch up with the change table, whoever died or raced on the way."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.columns import FEED_COLUMNS, Column
from arctic_runtime.model.files.layout import format_layout
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import CHANGES_VIEW, CURRENT_VIEW, KEEP, LAYOUT, REPAIRED, RUN
from arctic_runtime.model.state import (
    BaseState,
    ChangeTableState,
    Commit,
    ConflictingRelation,
    NamedViewState,
    TableState,
    ViewState,
)
from arctic_runtime.model.step import (
    CreateBase,
    DropBranches,
    DropChangesView,
    DropConflictingRelation,
    DropCurrentView,
    MergeBase,
    NoteChangesView,
    NoteCurrentView,
    ReplaceChangesView,
    ReplaceCurrentView,
    ReplaceView,
    SetWriteOrder,
    Step,
)
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh.reconcile import (
    compute_commit_limit,
    compute_merge_relaxation,
    plan_branch_cleanup,
    plan_reconciliation,
)
from arctic_runtime.thresholds import ExpiryThresholds, MergeThresholds
from tests.thresholds import STEADY

MERGE, EXPIRY = STEADY.merge, ExpiryThresholds()
TABLE = TableName("lake", "dwd", "orders")
COLUMNS = (Column("id", "int"), Column("value", "int"))
LONG_AFTER = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
ON_WRITE = Model(TABLE, "select 1", ModelConfig(("id",), hash_key="id"))
ON_READ = Model(TABLE, "select 1", ModelConfig(("id",), hash_key="id", merge="on_read"))
MODELS = pytest.mark.parametrize("model", [ON_WRITE, ON_READ], ids=["on_write", "on_read"])


def v(number: int) -> Version:
    return Version("log", 100 + number, number)


def a_log(*rows: int, run: bool = True) -> ChangeTableState:
    """A change table whose commits, versions 1, 2, …, added so many rows each."""
    summary = {RUN: "token"} if run else {}
    commits = tuple(Commit(v(i), None, "append", n, 10 * n, summary, 0) for i, n in enumerate(rows, 1))
    return ChangeTableState("log", COLUMNS, commits, {})


def a_base(merged: Version | None, rows: int = 100, snapshot: int = 7) -> BaseState:
    return BaseState("base", COLUMNS, snapshot, merged, rows, {})


def a_view(base: int, merged: int, head: int, columns: tuple[Column, ...] = COLUMNS) -> ViewState:
    return ViewState(columns, base, 100 + merged, 100 + head)


def every(seconds: float, count: int = 10) -> list[Commit]:
    """Commits of one row, so many seconds apart."""
    return [Commit(v(i), None, "append", 1, 10, {}, round(1000 * seconds * i)) for i in range(2, 2 + count)]


def test_more_may_wait_where_commits_come_faster_than_merges_could_keep_up_with() -> None:
    """The base is one that a merge takes 20 seconds for."""
    rows = 20 * MERGE.merged_rows_per_second
    relaxations = [compute_merge_relaxation(rows, every(seconds), MERGE) for seconds in (60, 20, 19, 5, 1.25, 0.1)]
    assert relaxations[:2] == [1.0, 1.0]
    assert 1.0 < relaxations[2] < 1.05
    assert relaxations[3:] == [2.0, 4.0, MERGE.longest_wait_factor]


@pytest.mark.parametrize("pending", [[], every(1, 1), every(0), list(reversed(every(1)))])
def test_where_times_tell_nothing_as_much_may_wait_as_ever(pending: list[Commit]) -> None:
    assert compute_merge_relaxation(10**9, pending, MERGE) == 1.0


@pytest.mark.parametrize(("seconds", "folds"), [(60, True), (5, False)])
def test_a_table_under_pressure_is_merged_later_and_in_the_end_it_is(seconds: float, folds: bool) -> None:
    for commits, expected in ((MERGE.unmerged_commits, folds), (2 * MERGE.unmerged_commits, True)):
        log = ChangeTableState("log", COLUMNS, (a_log(5).commits[0], *every(seconds, commits)), {})
        (step,) = plan_reconciliation(ON_READ, TableState(log, a_base(v(1), 20 * MERGE.merged_rows_per_second)), MERGE)
        assert isinstance(step, MergeBase if expected else ReplaceView)


@MODELS
@pytest.mark.parametrize(
    "state",
    [
        TableState(),
        TableState(a_log()),
        TableState(a_log(0, run=False)),
        TableState(a_log(0, 5, run=False)),
    ],
    ids=["nothing there", "no snapshot", "just created", "no run yet"],
)
def test_before_the_first_run_nothing_follows(model: Model, state: TableState) -> None:
    assert plan_reconciliation(model, state, MERGE) == ()


@MODELS
def test_a_missing_base_is_made_from_all_changes(model: Model) -> None:
    assert plan_reconciliation(model, TableState(a_log(0, 5, 0, 3, 0)), MERGE) == (CreateBase(model.base, v(4), 80),)


@MODELS
def test_a_base_whose_creation_was_not_finished_is_replaced(model: Model) -> None:
    state = TableState(a_log(0, 5), unfinished=frozenset([model.base]))
    (step,) = plan_reconciliation(model, state, MERGE)
    assert step == CreateBase(model.base, v(2), 50, replaces=True)


@MODELS
def test_a_run_without_rows_makes_an_empty_base(model: Model) -> None:
    assert plan_reconciliation(model, TableState(a_log(0, 0)), MERGE) == (CreateBase(model.base, v(1), 0),)


def test_a_base_merged_on_write_is_merged_as_soon_as_it_is_behind() -> None:
    steps = plan_reconciliation(ON_WRITE, TableState(a_log(5, 1, 0, 1), a_base(v(1))), MERGE)
    assert steps == (MergeBase(TABLE, expected=7, start=v(1), end=v(4), commits=2),)


@pytest.mark.parametrize("log", [a_log(5), a_log(5, 0, 0)])
def test_where_nothing_is_behind_nothing_is_done(log: ChangeTableState) -> None:
    assert plan_reconciliation(ON_WRITE, TableState(log, a_base(v(1))), MERGE) == ()
    assert plan_reconciliation(ON_READ, TableState(log, a_base(v(1)), a_view(7, 1, 1)), MERGE) == ()


def test_a_base_ahead_of_what_was_observed_is_left_alone() -> None:
    assert plan_reconciliation(ON_WRITE, TableState(a_log(5), a_base(v(2))), MERGE) == ()


@pytest.mark.parametrize(
    ("rows", "base_rows", "folds"),
    [
        ([25], 100, False),
        ([26], 100, True),
        ([13, 13], 100, True),
        ([1], 0, True),
        ([1] * (MERGE.unmerged_commits - 1), 10_000, False),
        ([1] * MERGE.unmerged_commits, 10_000, True),
        ([0, 1] * (MERGE.unmerged_commits - 1), 10_000, False),
    ],
)
def test_a_table_merged_on_read_is_merged_when_reading_would_cost_more(
    rows: list[int], base_rows: int, folds: bool
) -> None:
    assert MERGE.unmerged_share == 0.25
    (step,) = plan_reconciliation(ON_READ, TableState(a_log(5, *rows), a_base(v(1), base_rows)), MERGE)
    assert isinstance(step, MergeBase if folds else ReplaceView)
    assert step.commits == len([n for n in rows if n])


@pytest.mark.parametrize(
    ("rows", "partition_by", "commits"),
    [
        (100_000, (), 2),
        (750_000, (), 2),
        (750_001, (), 13),
        (1_000_000, (), 16),
        (100_000_000, (), 50),
        (1_000_000, (Transform("identity", "value"),), 16),
        (500_000, (Transform("identity", "value"),), 9),
    ],
)
def test_a_base_is_merged_after_as_many_commits_as_a_merge_is_worth(
    rows: int, partition_by: tuple[Transform, ...], commits: int
) -> None:
    model = replace(ON_READ, config=replace(ON_READ.config, partition_by=partition_by))
    base = a_base(v(1), rows)
    assert compute_commit_limit(model, base, MergeThresholds()) == commits
    for written, merges in ((commits - 1, False), (commits, True)):
        state = TableState(a_log(5, *[1] * written), base)
        (step,) = plan_reconciliation(model, state, MergeThresholds())
        assert isinstance(step, MergeBase if merges else ReplaceView)


@pytest.mark.parametrize(
    "view",
    [
        None,
        a_view(6, 1, 3),
        a_view(7, 0, 3),
        a_view(7, 1, 2),
        a_view(7, 1, 3, COLUMNS[:1]),
        a_view(7, 1, 3, (COLUMNS[0], Column("old", "int"))),
    ],
    ids=["missing", "old base", "old start", "old head", "a column less", "a column renamed"],
)
def test_a_view_is_replaced_when_any_of_its_pins_or_columns_is_old(view: ViewState | None) -> None:
    steps = plan_reconciliation(ON_READ, TableState(a_log(5, 1, 1), a_base(v(1)), view), MERGE)
    assert steps == (ReplaceView(TABLE, base_snapshot=7, merged=v(1), head=v(3), commits=2),)


@MODELS
@pytest.mark.parametrize("merged", [None, Version("dropped", 101, 1)], ids=["not said", "of another table"])
def test_a_base_that_does_not_tell_what_it_holds_stops_the_run(model: Model, merged: Version | None) -> None:
    with pytest.raises(CorruptState, match="does not record which version") as raised:
        plan_reconciliation(model, TableState(a_log(5, 1), a_base(merged)), MERGE)
    assert "drop the base" in str(raised.value)


def test_a_conflicting_relation_is_dropped_only_together_with_the_step_that_replaces_it() -> None:
    view, table = ConflictingRelation(TABLE, "view"), ConflictingRelation(TABLE, "table")
    create = CreateBase(TABLE, v(1), 50)
    assert plan_reconciliation(ON_WRITE, TableState(a_log(5), conflicting=view), MERGE) == (
        DropConflictingRelation(view),
        create,
    )
    assert plan_reconciliation(ON_WRITE, TableState(a_log(5), conflicting=table), MERGE) == (
        CreateBase(TABLE, v(1), 50, replaces=True),
    )
    assert plan_reconciliation(ON_READ, TableState(a_log(5), conflicting=table), MERGE) == (
        CreateBase(TABLE.base, v(1), 50),
    )
    steps = plan_reconciliation(ON_READ, TableState(a_log(5), a_base(v(1)), conflicting=table), MERGE)
    assert steps == (DropConflictingRelation(table), ReplaceView(TABLE, 7, v(1), v(1), 0))
    assert plan_reconciliation(ON_WRITE, TableState(a_log(0, run=False), conflicting=view), MERGE) == ()


# Branches.


@MODELS
@pytest.mark.parametrize("later", [0, 5])
def test_a_base_that_is_older_than_a_repair_is_recreated_and_merged_to_it(model: Model, later: int) -> None:
    log = a_log(5, 0, later)
    repair = replace(log.commits[1], summary={RUN: "token", REPAIRED: "each key stands once in the table"})
    log = replace(log, commits=(log.commits[0], repair, log.commits[2]))
    (create,) = plan_reconciliation(model, TableState(log, a_base(v(1))), MERGE)
    assert isinstance(create, CreateBase)
    assert (create.table, create.version, create.replaces) == (model.base, v(3 if later else 2), True)
    view = a_view(7, create.version.sequence, create.version.sequence) if model is ON_READ else None
    assert plan_reconciliation(model, TableState(log, a_base(create.version), view), MERGE) == ()


def test_branches_of_both_tables_that_were_abandoned_are_dropped() -> None:
    parents: dict[int, int | None] = {101: None, 102: 101}
    refs = ({"main": 102, "arctic_a": 101, "arctic_b": 102}, parents, dict.fromkeys(parents, 0))
    base = BaseState("base", COLUMNS, 102, v(1), 0, {}, *refs)
    log = ChangeTableState("log", COLUMNS, (Commit(v(2), None, "append", 1, 1, {}, 0),), {}, *refs)
    state = TableState(log, base)
    expected = tuple(DropBranches(table, ("arctic_a",)) for table in (TABLE.changes, TABLE))
    assert plan_branch_cleanup(ON_WRITE, state, LONG_AFTER, EXPIRY) == expected
    assert plan_branch_cleanup(ON_WRITE, state, datetime.datetime.fromtimestamp(1, datetime.timezone.utc), EXPIRY) == ()


def test_without_relations_there_are_no_branches() -> None:
    assert plan_branch_cleanup(ON_WRITE, TableState(), LONG_AFTER, EXPIRY) == ()


# The whole, as a toy: what the steps do to a log, a base and a view, interleaved with crashes and races.


class LostRace(Exception):
    pass


@dataclass
class Toy:
    """Change rows are (key, value), a value of None deletes; a base is kept at every snapshot it ever had."""

    log: list[list[tuple[int, int | None]]] = field(default_factory=list)
    bases: dict[int, tuple[dict[int, int], int]] = field(default_factory=dict)
    base: int | None = None
    view: ViewState | None = None

    def observe(self) -> TableState:
        base = None
        if self.base is not None:
            rows, merged = self.bases[self.base]
            base = a_base(v(merged), len(rows), self.base)
        return TableState(a_log(*map(len, self.log)), base, self.view)

    def folded(self, start: int, end: int, rows: Mapping[int, int]) -> dict[int, int]:
        """Rows with the commits after version `start` and up to `end` applied."""
        result = dict(rows)
        for commit in self.log[start:end]:
            for key, value in commit:
                result.pop(key, None)
                if value is not None:
                    result[key] = value
        return result

    def perform(self, step: Step) -> None:
        match step:
            case CreateBase(_, version):
                if self.base is not None:
                    raise LostRace
                self._commit(self.folded(0, version.sequence, {}), version.sequence)
            case MergeBase(_, expected, start, end, commits):
                if self.base != expected:
                    raise LostRace
                rows, merged = self.bases[expected]
                assert start == v(merged)
                assert commits == len([c for c in self.log[merged : end.sequence] if c])
                self._commit(self.folded(merged, end.sequence, rows), end.sequence)
            case ReplaceView(_, base_snapshot, merged_to, head, commits):
                assert commits == len([c for c in self.log[merged_to.sequence : head.sequence] if c])
                self.view = ViewState(COLUMNS, base_snapshot, merged_to.snapshot, head.snapshot)
            case _:
                raise AssertionError(step)

    def _commit(self, rows: dict[int, int], merged: int) -> None:
        self.base = len(self.bases) + 1
        self.bases[self.base] = (rows, merged)

    def truth(self, version: int) -> dict[int, int]:
        return self.folded(0, version, {})

    def check_readers(self) -> None:
        """At any moment, what can be read is the table as it was at some version."""
        for rows, merged in self.bases.values():
            assert rows == self.truth(merged)
        if self.view is not None:
            assert self.view.base_snapshot is not None
            assert self.view.merged is not None
            assert self.view.head is not None
            rows, merged = self.bases[self.view.base_snapshot]
            assert merged == self.view.merged - 100
            head = self.view.head - 100
            assert self.folded(merged, head, rows) == self.truth(head)

    def read(self, model: Model) -> dict[int, int]:
        if model.config.merge == "on_write":
            assert self.base is not None
            return self.bases[self.base][0]
        assert self.view is not None
        assert self.view.base_snapshot is not None
        assert self.view.merged is not None
        assert self.view.head is not None
        rows, _ = self.bases[self.view.base_snapshot]
        return self.folded(self.view.merged - 100, self.view.head - 100, rows)


_commits = st.dictionaries(st.integers(0, 5), st.integers(0, 3) | st.none(), max_size=4).map(lambda d: list(d.items()))
_events = st.lists(st.one_of(_commits, st.sampled_from(["observe", "act", "crash", "reconcile"])), max_size=25)


def reconciled(toy: Toy, model: Model) -> None:
    """As a run does it: observe, perform, observe again, until nothing is left."""
    for _ in range(4):
        steps = plan_reconciliation(model, toy.observe(), MERGE)
        if not steps:
            return
        for step in steps:
            toy.perform(step)
            toy.check_readers()
    raise AssertionError("settling does not end")


def test_what_waits_on_read_is_merged_when_asked_for() -> None:
    state = TableState(a_log(5, 1, 0), a_base(v(1)), a_view(7, 1, 2))
    assert plan_reconciliation(ON_READ, state, MERGE) == ()
    assert plan_reconciliation(ON_READ, state, MERGE, fold=True) == (MergeBase(ON_READ.base, 7, v(1), v(2), 1),)
    merged = TableState(a_log(5, 1), a_base(v(2), snapshot=8), a_view(8, 2, 2))
    assert plan_reconciliation(ON_READ, merged, MERGE, fold=True) == ()


def test_where_versions_are_gone_one_commit_stands_for_several() -> None:
    """The rows of those that are gone are still there, perhaps more than one for a key."""
    whole = a_log(5, 1)
    assert (whole.begins, whole.count_after(None), whole.count_after(v(1))) == (True, 2, 1)
    cut = replace(whole, commits=(replace(whole.commits[1], parent=101),))
    assert (cut.begins, cut.count_after(None), cut.count_after(v(1)), cut.count_after(v(2))) == (False, 2, 2, 0)


def test_where_every_change_is_kept_one_commit_stands_for_several() -> None:
    """It may have several rows of one key, of which merges and views need the newest."""
    log = a_log(5, 1)
    every = replace(log, properties={**log.properties, KEEP: "all"})
    assert (every.count_after(None), every.count_after(v(1)), every.count_after(v(2))) == (2, 2, 0)
    state = TableState(every, a_base(v(1)), a_view(7, 1, 1))
    assert plan_reconciliation(ON_READ, state, MERGE, fold=True) == (MergeBase(ON_READ.base, 7, v(1), v(2), 2),)
    (view,) = plan_reconciliation(ON_READ, state, MERGE)
    assert isinstance(view, ReplaceView)
    assert view.commits == 2


@MODELS
def test_a_base_is_replaced_by_one_of_a_newer_format_and_dropped_for_one_of_an_older(model: Model) -> None:
    """Iceberg takes no table back to an older format version, not by replacing it either."""
    older = replace(model, config=replace(model.config, format_version=2))
    for now, then, steps in ((model, older, ["CreateBase"]), (older, model, ["DropTable", "CreateBase"])):
        base = replace(a_base(v(1)), properties={LAYOUT: format_layout(then.config)})
        reconciliation = plan_reconciliation(now, TableState(a_log(5), base), MERGE)
        assert [type(step).__name__ for step in reconciliation] == steps
        assert reconciliation[-1] == CreateBase(model.base, v(1), 50, replaces=steps == ["CreateBase"])


def test_a_table_of_unknown_format_gives_way_before_one_of_an_older_format_is_made() -> None:
    older = replace(ON_WRITE, config=replace(ON_WRITE.config, format_version=2))
    conflicting = ConflictingRelation(TABLE, "table")
    steps = (DropConflictingRelation(conflicting), CreateBase(TABLE, v(1), 50))
    assert plan_reconciliation(older, TableState(a_log(5), conflicting=conflicting), MERGE) == steps


def test_a_new_base_is_sized_by_what_the_change_table_holds_now() -> None:
    log = a_log(0, 5, 3)
    commit = replace(log.commits[2], summary={RUN: "token", "total-files-size": "12345"})
    (step,) = plan_reconciliation(ON_WRITE, TableState(replace(log, commits=(*log.commits[:2], commit))), MERGE)
    assert step == CreateBase(TABLE, v(3), 12_345)


@MODELS
@settings(max_examples=40)
@given(events=_events, chance=st.randoms(use_true_random=False))
def test_settling_converges_to_the_log_after_any_crash_and_any_race(model: Model, events: list[Any], chance) -> None:
    toy = Toy([[]])
    planned: list[Step] = []  # what other runs observed earlier and have yet to do
    for event in events:
        match event:
            case "observe":
                planned.extend(plan_reconciliation(model, toy.observe(), MERGE))
            case "act" if planned:
                with contextlib.suppress(LostRace):
                    toy.perform(planned.pop(chance.randrange(len(planned))))
            case "crash":
                planned.clear()
            case "reconcile":
                reconciled(toy, model)
                assert toy.read(model) == toy.truth(len(toy.log))
            case list():
                toy.log.append(event)
        toy.check_readers()
    reconciled(toy, model)
    assert toy.read(model) == toy.truth(len(toy.log))
    assert plan_reconciliation(model, toy.observe(), MERGE) == ()


def test_a_base_whose_run_died_before_it_set_the_write_order_gets_it() -> None:
    """Only where the base is laid out as the model says: `continue` leaves another layout as it is."""
    sorted_by = replace(ON_WRITE, config=replace(ON_WRITE.config, sort_key=("value",)))
    laid_out = {LAYOUT: format_layout(sorted_by.config)}
    base = replace(a_base(v(1)), properties=laid_out, has_write_order=False)
    assert plan_reconciliation(sorted_by, TableState(a_log(1), base), MERGE) == (SetWriteOrder(sorted_by.base),)
    assert plan_reconciliation(sorted_by, TableState(a_log(1), replace(base, has_write_order=True)), MERGE) == ()
    assert (
        plan_reconciliation(ON_WRITE, TableState(a_log(1), replace(a_base(v(1)), has_write_order=False)), MERGE) == ()
    )


def test_a_merge_that_is_left_to_others_waits_as_long_as_a_view_can_show_what_is_not_merged() -> None:
    log, base = a_log(5, *[100] * 50), a_base(v(1), 10)
    assert isinstance(plan_reconciliation(ON_READ, TableState(log, base), MERGE)[0], MergeBase)
    assert isinstance(plan_reconciliation(ON_READ, TableState(log, base), MERGE, defer=True)[0], ReplaceView)
    assert isinstance(plan_reconciliation(ON_WRITE, TableState(log, base), MERGE, defer=True)[0], MergeBase)


VIEWED = Model(TABLE, "select 1", ModelConfig(("id", "_valid_from"), hash_key="id", history="scd2", current_view=True))
CURRENT, FORMER = TABLE.with_name(f"{TABLE.name}_current"), TABLE.with_name("former")
CREATE = ReplaceCurrentView(CURRENT, TABLE)


def make_view(name: TableName, columns: tuple[Column, ...] = COLUMNS, is_own: bool = True) -> NamedViewState:
    return NamedViewState(name, "view", columns, is_own)


def marked(name: str) -> NoteCurrentView:
    return NoteCurrentView(TABLE.changes, name)


@pytest.mark.parametrize(
    ("view", "noted", "states", "steps"),
    [
        (True, "", (), (marked(CURRENT.name), CREATE)),
        (True, CURRENT.name, (), (CREATE,)),
        (True, CURRENT.name, (make_view(CURRENT),), ()),
        (True, CURRENT.name, (make_view(CURRENT, COLUMNS[:1]),), (CREATE,)),
        (True, FORMER.name, (make_view(FORMER),), (DropCurrentView(FORMER), marked(CURRENT.name), CREATE)),
        (True, FORMER.name, (make_view(FORMER, is_own=False),), (marked(CURRENT.name), CREATE)),
        (True, CURRENT.name, (make_view(CURRENT, is_own=False),), ()),
        (False, CURRENT.name, (make_view(CURRENT),), (DropCurrentView(CURRENT), marked(""))),
        (False, CURRENT.name, (), (marked(""),)),
        (False, "", (), ()),
        (FORMER.name, FORMER.name, (make_view(FORMER),), ()),
    ],
)
def test_the_view_of_current_versions_has_the_name_and_the_columns_that_it_should_have(
    view: bool | str, noted: str, states: tuple[NamedViewState, ...], steps: tuple[Step, ...]
) -> None:
    """Nothing of another's is dropped or replaced."""
    model = replace(VIEWED, config=replace(VIEWED.config, current_view=view))
    log = replace(a_log(5), properties={CURRENT_VIEW: noted} if noted else {})
    base = replace(a_base(v(1)), properties={LAYOUT: format_layout(model.config)})
    assert plan_reconciliation(model, TableState(log, base, current_views=states), MERGE) == steps


FED = Model(TABLE, "select 1", ModelConfig(("id",), hash_key="id", changes_view=True))
FEED = TABLE.with_name(f"{TABLE.name}_cdf")
FEED_VIEW = NamedViewState(FEED, "view", (*COLUMNS, *FEED_COLUMNS), is_own=True)
CREATE_FEED = ReplaceChangesView(FEED, TABLE)


def note(name: str) -> NoteChangesView:
    return NoteChangesView(TABLE.changes, name)


@pytest.mark.parametrize(
    ("view", "noted", "states", "steps"),
    [
        (True, "", (), (note(FEED.name), CREATE_FEED)),
        (True, FEED.name, (FEED_VIEW,), ()),
        (True, FEED.name, (replace(FEED_VIEW, columns=COLUMNS),), (CREATE_FEED,)),
        (True, FEED.name, (replace(FEED_VIEW, is_own=False),), ()),
        ("former", FEED.name, (FEED_VIEW,), (DropChangesView(FEED), note("former"), ReplaceChangesView(FORMER, TABLE))),
        (False, FEED.name, (FEED_VIEW,), (DropChangesView(FEED), note(""))),
    ],
)
def test_the_view_of_change_rows_has_the_name_and_the_columns_that_it_should_have(
    view: bool | str, noted: str, states: tuple[NamedViewState, ...], steps: tuple[Step, ...]
) -> None:
    model = replace(FED, config=replace(FED.config, changes_view=view))
    log = replace(a_log(5), columns=COLUMNS, properties={CHANGES_VIEW: noted} if noted else {})
    base = replace(a_base(v(1)), properties={LAYOUT: format_layout(model.config)})
    assert plan_reconciliation(model, TableState(log, base, changes_views=states), MERGE) == steps
