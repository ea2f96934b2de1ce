"""Queries that go back to an earlier text: when a table returns to its version of that text, and when runs wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.ivm.algebra.refusal import Refusal
from arctic_runtime.model.columns import Column
from arctic_runtime.model.properties import (
    CHANGELOG,
    FROZEN,
    GIVEN_UP,
    JUDGED,
    MODE,
    OFFSETS,
    QUERY,
    REASON,
    REPAIRED,
    RESTORED_CUT,
    RESUMED,
    RUN,
    SESSION,
)
from arctic_runtime.model.run_summary import SCHEMA_ONLY, UNFROZEN
from arctic_runtime.model.state import Commit, SourceState, TableState
from arctic_runtime.model.version import Window, encode_versions
from arctic_runtime.plan.refresh.decide import Decision, decide_refresh, has_awaited_query
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint, hash_query_reading
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.session_changes import SessionState
from tests.unit.plan.refresh.test_decide import REFRESH, RUN_AGAIN, TABLE, UP, a_commit, a_model, v
from tests.unit.plan.refresh.test_edits import COLUMNS, reading, source, table

GOOD, BAD = "select id, v from ods.up where v > 1", "select id, sum(v) as v from ods.up group by id"
NARROW = "select id, v from ods.up where v > 1 and v > 3"
CHANGE_COLUMNS = (*COLUMNS[:2], Column("_action", "string"), Column("_before", "struct<v:int>"))


def made_by(number: int, sql: str, offset: int, rows: int = 3, **more: str) -> Commit:
    """A commit of a run of the query `sql`, which read the source up to its version `offset`."""
    model = a_model(sql)
    said = {
        RUN: f"run-{number}",
        MODE: "full",
        OFFSETS: encode_versions({str(UP): v(offset)}),
        QUERY: compute_fingerprint(model, reading()),
        JUDGED: hash_query_reading(model, reading()),
        **more,
    }
    return replace(a_commit(v(number, "changes"), **said), rows=rows)


def lived(*commits: Commit, **known: Any) -> TableState:
    """A table with these commits."""
    state = table(a_model(BAD))
    assert state.changes is not None
    return replace(state, changes=replace(state.changes, commits=commits, **known))


def own_of(state: TableState) -> SourceState:
    assert state.changes is not None
    commits = state.changes.commits
    kept = frozenset(commit.version.snapshot for commit in commits)
    return SourceState(TABLE, "changes", commits[-1].version, commits, CHANGE_COLUMNS, 3, kept, key=("id",), rows=3)


def decide(
    state: TableState,
    sql: str = GOOD,
    up: SourceState | None = None,
    request: Request = RUN_AGAIN,
    settings: Mapping[str, str] | None = None,
    **config: Any,
) -> Decision:
    upstreams = replace(reading(up or source(1, 2, 3)), own=own_of(state), settings=settings or {})
    return decide_refresh(a_model(sql, **config), state, upstreams, request)


LIFE = (made_by(1, GOOD, 1), made_by(2, GOOD, 2), made_by(3, BAD, 3, rows=5))


def test_a_query_of_earlier_returns_to_the_newest_version_that_it_made() -> None:
    decision = decide(lived(*LIFE))
    assert (decision.mode, decision.reason) == ("incremental", "REVERTED")
    assert decision.because == "the query is again that of version 102 of 1970-01-01 00:00 UTC"
    assert decision.consumed == {str(UP): v(2)}
    assert decision.revert is not None
    assert decision.revert.own == Window(str(TABLE), v(2, "changes"), v(3, "changes"))
    assert decision.revert.describe_plan()[0] == "takes back 5 change rows of the table since version 102"
    assert decision.has_later_changes


@pytest.mark.parametrize("refresh", ["auto", "incremental", "strict"])
def test_every_way_of_refreshing_incrementally_returns(refresh: str) -> None:
    assert decide(lived(*LIFE), refresh=refresh).reason == "REVERTED"


def test_a_table_in_full_returns_if_its_sources_are_as_then() -> None:
    assert decide(lived(*LIFE), up=source(1, 2), refresh="full").reason == "REVERTED"
    assert decide(lived(*LIFE), refresh="full").reason == "QUERY_CHANGED"


@pytest.mark.parametrize(
    ("state", "arguments"),
    [
        (lived(LIFE[2]), {}),
        (lived(made_by(1, GOOD, 1, **{MODE: SCHEMA_ONLY}), LIFE[2]), {}),
        (lived(LIFE[0], made_by(2, BAD, 2, **{REASON: "FORGOTTEN"}), LIFE[2]), {}),
        (lived(LIFE[0], made_by(2, BAD, 2, **{FROZEN: UNFROZEN}), LIFE[2]), {}),
        (lived(LIFE[0], made_by(2, BAD, 2, **{REPAIRED: "the key"}), LIFE[2]), {}),
        (lived(LIFE[0], made_by(2, BAD, 2, **{CHANGELOG: "input"}), LIFE[2]), {}),
        (lived(*LIFE, dropped_columns=frozenset({102})), {}),
        (lived(*LIFE, old_column_names={102: {"v": "w"}}), {}),
        (replace(lived(*LIFE), base=None), {}),
        (lived(*LIFE), {"up": source(3, 4, form=2)}),
        (lived(*LIFE), {"up": source(1, 2, 3, table="uuid-2")}),
        (lived(LIFE[0], made_by(2, BAD, 2, rows=20_000)), {}),
        (lived(*LIFE), {"request": Request(given_up=Refusal("INCREMENT_FAILED", "a cast failed"))}),
        (lived(made_by(1, GOOD, 1, **{GIVEN_UP: "LIMIT it has one"}), LIFE[2]), {}),
        (lived(*LIFE), {"settings": {"spark.sql.x": "1"}}),
        (lived(*LIFE), {"keep_deleted": False}),
        (lived(*LIFE), {"request": REFRESH}),
    ],
)
def test_what_is_not_kept_or_costs_more_is_computed_in_full(state: TableState, arguments: Any) -> None:
    decision = decide(state, **arguments)
    assert (decision.mode, decision.revert) == ("full", None)


def test_a_version_of_another_session_is_passed_over() -> None:
    here, there = SessionState("4.0", {"spark.sql.x": "1"}), SessionState("4.0", {"spark.sql.x": "2"})
    state = lived(
        made_by(1, GOOD, 1, **{SESSION: here.encode()}), made_by(2, GOOD, 2, **{SESSION: there.encode()}), LIFE[2]
    )
    before_spark = decide(state)
    with_spark = decide(state, request=Request(session=here))
    assert [one.revert and one.revert.run.run for one in (before_spark, with_spark)] == ["run-2", "run-1"]


@pytest.mark.parametrize(("rows", "reason"), [(1, "REVERTED"), (2000, "EDITED")])
def test_the_cheaper_of_an_edit_and_a_return_is_made(rows: int, reason: str) -> None:
    state = table(a_model(NARROW), {str(UP): v(3)})
    assert state.changes is not None
    last = replace(state.changes.commits[0], version=v(3, "changes"), parent=102, rows=rows)
    state = replace(state, changes=replace(state.changes, commits=(*LIFE[:2], last)))
    assert decide(state, "select id, v from ods.up where v > 1").reason == reason


WAITING = lived(*LIFE, made_by(4, GOOD, 2, **{REASON: "RESTORED", RESTORED_CUT: "build_1"}))


def test_a_restored_table_waits_until_its_query_is_that_of_the_cut() -> None:
    waiting = decide(WAITING, BAD)
    assert (waiting.mode, waiting.reason) == ("unchanged", "WAITS_FOR_RESTORED_QUERY")
    assert "restored to build_1" in waiting.because
    assert "`arctic resume orders`" in waiting.because
    assert not has_awaited_query(waiting, WAITING)
    assert decide(WAITING, GOOD).reason == "CHANGES"
    assert decide(WAITING, BAD, request=REFRESH).reason == "FULL_REFRESH"


def test_a_run_without_changes_ends_the_wait_if_the_query_is_that_of_the_cut() -> None:
    decision = decide(WAITING, GOOD, up=source(1, 2))
    assert decision.reason == "NOTHING_NEW"
    assert has_awaited_query(decision, WAITING)


def test_a_table_that_was_resumed_or_has_run_again_does_not_wait() -> None:
    resumed = lived(
        *(WAITING.changes.commits if WAITING.changes else ()),
        properties={**(WAITING.changes.properties if WAITING.changes else {}), RESUMED: "run-4"},
    )
    assert decide(resumed, BAD).reason == "REVERTED"
    followed = lived(*(WAITING.changes.commits if WAITING.changes else ()), made_by(5, GOOD, 3))
    assert decide(followed, BAD).reason == "REVERTED"
