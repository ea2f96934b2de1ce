"""Versions that depend on events of earlier runs which no stored version tells: late in sequence or time, and ties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.shape import build_shape
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.history.event_versions import needs_earlier_events
from arctic_runtime.spark.refresh import from_events
from arctic_runtime.spark.tables.rows.frames import list_frame_columns
from tests.spark.warehouse import Warehouse, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arctic_runtime.model.table import Model

EVENTS = "id int, a int, b string, op string, seq int, vt int"


def make_history(lake: Warehouse, **config: Any) -> Model:
    settings = {
        "primary_key": "id",
        "input": "changes",
        "sequence_by": "seq",
        "delete_when": "op = 'd'",
        "exclude_columns": ["op", "seq", "vt"],
        "history": "scd2",
    }
    return lake.model("m", "select id, a, b, op, seq, vt from {changes(events)}", **{**settings, **config})


def run_with(lake: Warehouse, model: Model, *events: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The versions that a table says after these events of one more run: key, interval and columns."""
    lake.append("events", events, EVENTS)
    lake.run(model)
    rows = lake.spark.table(quoted(*model.table.parts))
    said = rows.where("_recorded_to is null") if model.config.valid_time else rows
    return sorted_rows(said.select("id", "_valid_from", "_valid_to", "a", "b"))


def check_once(lake: Warehouse, model: Model) -> None:
    assert lake.broken(model) == []
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


@pytest.mark.in_turn
def test_a_delete_that_closed_no_version_ends_those_that_later_runs_open_before_it(lake: Warehouse) -> None:
    model = make_history(lake, valid_time="vt")
    first = [(1, None, None, "d", 1, 7), (2, 1, "p", "c", 2, 1), (2, None, None, "d", 3, 5), (2, None, None, "d", 4, 9)]
    assert run_with(lake, model, *first) == [(2, 1, 5, 1, "p")]
    second = run_with(lake, model, (1, 2, "x", "c", 10, 3), (2, 2, "y", "c", 11, 6))
    assert second == [(1, 3, 7, 2, "x"), (2, 1, 5, 1, "p"), (2, 6, 9, 2, "y")]
    third = run_with(lake, model, (1, None, None, "d", 12, 3), (1, 3, "z", "c", 13, 2), (2, 3, "w", "c", 14, 5))
    assert third == [(1, 2, 3, 3, "z"), (2, 1, 5, 1, "p"), (2, 5, 6, 3, "w"), (2, 6, 9, 2, "y")]
    check_once(lake, model)


@pytest.mark.in_turn
def test_verify_sees_a_version_that_ignored_such_a_delete(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_history(lake, valid_time="vt")
    run_with(lake, model, (1, None, None, "d", 1, 7))
    with monkeypatch.context() as patched:
        patched.setattr(from_events, "find_earlier_events", lambda *_: None)
        assert run_with(lake, model, (1, 2, "x", "c", 10, 3)) == [(1, 3, None, 2, "x")]
    assert [text for text in lake.broken(model) if text.startswith("the query gives the table")]
    lake.run(model, full_refresh=True)
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_such_a_delete_also_counts_if_the_event_is_late_in_sequence(lake: Warehouse) -> None:
    model = make_history(lake, valid_time="vt")
    assert run_with(lake, model, (1, None, None, "d", 2, 7), (2, 1, "p", "c", 10, 1)) == [(2, 1, None, 1, "p")]
    assert run_with(lake, model, (1, 2, "x", "c", 5, 3)) == [(1, 3, 7, 2, "x"), (2, 1, None, 1, "p")]
    assert run_with(lake, model, (1, 3, "y", "c", 1, 7)) == [(1, 3, 7, 2, "x"), (2, 1, None, 1, "p")]
    check_once(lake, model)


def test_an_event_needs_earlier_events_if_it_is_not_after_all_that_was_read(lake: Warehouse) -> None:
    model = make_history(lake, valid_time="vt")
    run_with(lake, model, (1, 1, "p", "c", 4, 7), (1, 1, "p", "c", 5, 3))
    state = lake.state(model)
    last = find_last_run(state.changes)
    assert last is not None
    assert (last.high_watermark, last.newest_valid_time) == ("5", "7")
    events = lake.frame([(1, 1, "p", "c", seq, vt) for seq in (4, 5, 6) for vt in (6, 7, 8)], EVENTS)
    shape = build_shape(model, state, list_frame_columns(events))

    def asking(model: Model, last: RunSummary) -> set[tuple[int, int]]:
        return {(row.seq, row.vt) for row in events.where(needs_earlier_events(model, shape, last)).collect()}

    assert asking(model, last) == {(4, 6), (4, 7), (4, 8), (5, 6), (6, 6)}
    assert asking(make_history(lake, valid_time="vt", delete_when=None), last) == {(4, 6), (4, 7), (4, 8)}
    before_times_were_recorded = RunSummary(high_watermark="5")
    assert len(asking(model, before_times_were_recorded)) == 9
    assert asking(make_history(lake), last) == {(4, 6), (4, 7), (4, 8)}
    tied = {(5, 6), (5, 7), (5, 8)}
    assert asking(make_history(lake, track=["a"]), last) == {(4, 6), (4, 7), (4, 8), *tied}
    assert asking(make_history(lake, keep_deleted=False), last) == {(4, 6), (4, 7), (4, 8), *tied}


@pytest.mark.in_turn
@pytest.mark.parametrize("newest", [10, pytest.param(20, marks=pytest.mark.slow)])
def test_an_event_takes_the_place_of_one_that_replaced_values_of_a_version(lake: Warehouse, newest: int) -> None:
    """Of the newest event of all, and of one that is older than others of other keys."""
    model = make_history(lake, track=["a"])
    other = (9, 1, "o", "c", newest, 0)
    run_with(lake, model, (1, 1, "x", "c", 5, 0), (1, 1, "y", "u", 10, 0), other)
    rows = run_with(lake, model, (1, 2, "w", "u", 10, 0))
    assert rows == [(1, 10, None, 2, "w"), (1, 5, 10, 1, "x"), (9, newest, None, 1, "o")]
    check_once(lake, model)


@pytest.mark.in_turn
@pytest.mark.parametrize("newest", [10, pytest.param(20, marks=pytest.mark.slow)])
def test_an_event_takes_the_place_of_a_delete_with_its_versions(lake: Warehouse, newest: int) -> None:
    model = make_history(lake, keep_deleted=False)
    other = (9, 1, "o", "c", newest, 0)
    assert run_with(lake, model, (1, 1, "x", "c", 5, 0), (1, None, None, "d", 10, 0), other) == [
        (9, newest, None, 1, "o")
    ]
    rows = run_with(lake, model, (1, 2, "y", "c", 10, 0))
    assert rows == [(1, 10, None, 2, "y"), (1, 5, 10, 1, "x"), (9, newest, None, 1, "o")]
    check_once(lake, model)
