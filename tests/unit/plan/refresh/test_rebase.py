"""Change rows on top of runs that committed meanwhile: which still hold, and what is read again for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import MODE, OFFSETS, QUERY, RUN
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version, Window, encode_versions
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.rebase import Rebase, plan_rebase

A, B = "lake.ods.a", "lake.ods.b"
SQL = f"select id, v, at from `changes({A})` union all select id, v, at from `changes({B})`"
SUMMARY = RunSummary(query="the query")
Reads = Mapping[str, int]


def a_model(sql: str = SQL, **config: Any) -> Model:
    declared = {"primary_key": ("id",), "hash_key": "id", "input": "changes", "sequence_by": "at", **config}
    return Model(TableName("lake", "dwd", "wide"), sql, ModelConfig(**declared))


def v(number: int, table: str = "source") -> Version:
    return Version(table, 100 + number, number)


def a_run(number: int, reads: Reads, mode: str = "incremental", query: str = "the query", **other: Any) -> Commit:
    offsets = encode_versions({name: v(at) for name, at in reads.items()})
    summary = {RUN: f"run {number}", MODE: mode, QUERY: query, OFFSETS: offsets}
    return replace(Commit(v(number, "log"), 99 + number, "append", 1, 10, summary, 0), **other)


def a_log(*commits: Commit) -> ChangeTableState:
    return ChangeTableState("log", (Column("id", "int"),), commits, {})


def windows(start: Reads, end: Reads) -> dict[str, Window]:
    return {table: Window(table, v(start[table]), v(end[table])) for table in start}


def find_rebase_of(then: Reads, theirs: Reads, own: Reads, model: Model | None = None, **run: Any) -> Rebase | None:
    first = a_run(1, then, mode="create")
    decision = Decision("incremental", "CHANGES", windows(then, own))
    return plan_rebase(model or a_model(), a_log(first), a_log(first, a_run(2, theirs, **run)), decision, SUMMARY)


def test_a_run_of_another_flow_leaves_all_that_this_one_read() -> None:
    rebased = find_rebase_of({A: 1, B: 1}, {A: 3, B: 1}, {A: 1, B: 2})
    assert rebased == Rebase(windows({A: 1, B: 1}, {A: 3, B: 1}), windows({A: 3, B: 1}, {A: 3, B: 2}))
    assert rebased.offsets == {A: v(3), B: v(2)}


@pytest.mark.parametrize(
    ("theirs", "own", "left"),
    [
        ({A: 3, B: 1}, {A: 3, B: 2}, ({A: 3, B: 1}, {A: 3, B: 2})),
        ({A: 2, B: 1}, {A: 3, B: 2}, ({A: 2, B: 1}, {A: 3, B: 2})),
        ({A: 4, B: 1}, {A: 3, B: 2}, ({A: 4, B: 1}, {A: 4, B: 2})),
        ({A: 4, B: 1}, {A: 4, B: 1}, None),
        ({A: 4, B: 2}, {A: 3, B: 2}, None),
    ],
)
def test_events_that_both_read_are_applied_once(theirs: Reads, own: Reads, left: tuple[Reads, Reads] | None) -> None:
    then = {A: 1, B: 1}
    rebased = find_rebase_of(then, theirs, own)
    assert rebased == (left and Rebase(windows(then, theirs), windows(*left)))


@pytest.mark.parametrize(
    "run",
    [
        {"mode": "full"},
        {"query": "another query"},
        {"operation": "overwrite"},
        {"summary": {}},
        {"version": v(2, "another log"), "operation": "replace"},
    ],
)
def test_commits_of_another_kind_in_between_make_a_run_start_again(run: dict[str, Any]) -> None:
    then, theirs, own = {A: 1, B: 1}, {A: 3, B: 1}, {A: 1, B: 2}
    assert find_rebase_of(then, theirs, own, **run) is None
    assert find_rebase_of(then, theirs, own) is not None


@pytest.mark.parametrize(
    "model",
    [
        a_model(truncate_when="v = 0"),
        a_model(history="scd2"),
        a_model(frozen_where="v = 0"),
        a_model(f"select c.id, v from `changes({A})` a join dwd.customers c on c.id = a.customer"),
        a_model(f"select id, sum(v) as v from `changes({A})` group by id"),
        a_model(f"select id, v from `changes({A})` where id in (select id from dwd.known)"),
        a_model(f"select uuid() as id, v from `changes({A})`"),
    ],
)
def test_events_that_do_not_stand_for_themselves_make_a_run_start_again(model: Model) -> None:
    then, theirs, own = {A: 1, B: 1}, {A: 3, B: 1}, {A: 1, B: 2}
    assert find_rebase_of(then, theirs, own, model) is None


def test_other_columns_and_a_lost_head_make_a_run_start_again() -> None:
    first, second = a_run(1, {A: 1}, mode="create"), a_run(2, {A: 2})
    decision = Decision("incremental", "CHANGES", windows({A: 1}, {A: 3}))
    then, now = a_log(first), a_log(first, second)
    assert plan_rebase(a_model(), then, now, decision, SUMMARY) is not None
    wider = replace(now, columns=(*now.columns, Column("v", "int")))
    for other in (wider, replace(now, uuid="another"), a_log(second), then):
        assert plan_rebase(a_model(), then, other, decision, SUMMARY) is None
    full = replace(decision, mode="full")
    assert plan_rebase(a_model(), then, now, full, SUMMARY) is None


Event = tuple[int, int, int]
"""Key, place and value."""


class Table:
    """Rows by key, and the newest place that was read of each key, also by events that changed nothing."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.seen: dict[int, int] = {}

    def applied(self, events: list[Event]) -> Table:
        table = Table()
        table.rows, table.seen = dict(self.rows), dict(self.seen)
        for key, place, value in sorted(events, key=lambda event: event[1]):
            if place >= table.seen.get(key, -1):
                table.rows[key], table.seen[key] = value, place
        return table


VERSIONS = st.integers(1, 3)


@settings(max_examples=300)
@example([(A, 1, 0, 0), (A, 2, 0, 0), (B, 2, 0, 1)], [0, 2, 1], (2, 1, 1, 2))
@example([(A, 1, 0, 0), (A, 2, 0, 1), (A, 3, 0, 0), (B, 2, 1, 0)], [0, 1, 2, 3], (3, 1, 2, 2))
@given(
    st.lists(st.tuples(st.sampled_from((A, B)), VERSIONS, st.integers(0, 1), st.integers(0, 1)), max_size=8),
    st.permutations(range(8)),
    st.tuples(*[VERSIONS] * 4),
)
def test_kept_and_recomputed_rows_are_those_of_all_events_in_their_order(
    made: list[tuple[str, int, int, int]], places: list[int], versions: tuple[int, ...]
) -> None:
    """Of each event its source, the version that has it, its key and value; of the runs the versions that they read."""
    events = [(table, at, (key, place, value)) for (table, at, key, value), place in zip(made, places, strict=False)]
    then, theirs, own = {A: 1, B: 1}, {A: versions[0], B: versions[1]}, {A: versions[2], B: versions[3]}

    def read(parts: Mapping[str, Window]) -> list[Event]:
        inside = {
            name: range(part.start.sequence + 1, part.end.sequence + 1) for name, part in parts.items() if part.start
        }
        return [event for table, at, event in events if at in inside[table]]

    zero = {A: 0, B: 0}
    before = Table().applied(read(windows(zero, then)))
    after = before.applied(read(windows(then, theirs)))
    rebased = find_rebase_of(then, theirs, own)
    if rebased is None:
        assert all(own[table] <= theirs[table] for table in (A, B))
        return
    changed = before.applied(read(windows(then, own))).rows
    keys = {key for key, _, _ in read(rebased.theirs)}
    kept = {key: value for key, value in changed.items() if key not in keys and before.rows.get(key) != value}
    again = after.applied([event for event in read(rebased.left) if event[0] in keys]).rows
    ends = {name: version.sequence for name, version in rebased.offsets.items()}
    assert {**again, **kept} == Table().applied(read(windows(zero, ends))).rows
