"""Numbers of change rows that a run will publish, from what past runs of the model have published."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import MODE, OFFSETS, REASON, RUN
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, SourceState, TableState
from arctic_runtime.model.step import Mode, Reason
from arctic_runtime.model.version import Version, Window, encode_versions
from arctic_runtime.plan.preview.amount import NONE, Amount
from arctic_runtime.plan.preview.published_rows import add_changes, estimate_published_rows
from arctic_runtime.plan.refresh.decide import Decision

UP = TableName("lake", "ods", "up")


def v(number: int) -> Version:
    return Version("uuid", 100 + number, number)


def a_source(*rows: int, total: int = 1_000) -> SourceState:
    commits = tuple(Commit(v(number), None, "append", count, 10 * count, {}, 0) for number, count in enumerate(rows))
    return SourceState(UP, "changes", commits[-1].version, commits, (), 3, rows=total)


def a_run(number: int, rows: int, read: int, mode: Mode = "incremental", reason: Reason = "CHANGES") -> Commit:
    summary = {RUN: "token", MODE: mode, REASON: reason, OFFSETS: encode_versions({str(UP): v(read)})}
    return Commit(v(number), None, "append", rows, 0, summary, 0)


def a_table(*runs: Commit, rows: int = 500) -> TableState:
    return TableState(ChangeTableState("uuid", (), runs, {}), BaseState("uuid", (), 1, None, rows, {}))


def estimate(
    decision: Decision, state: TableState, source: SourceState, changed: float = 0, new_rows: Amount = NONE
) -> Amount:
    sources: Mapping[str, SourceState] = {str(UP): source}
    return estimate_published_rows(decision, state, sources, Amount.from_estimates(changed), new_rows)


EDITED = Decision("full", "QUERY_CHANGED")
FOLLOWED = Decision("incremental", "CHANGES")


def test_an_edit_publishes_what_earlier_edits_did_and_at_most_all_rows() -> None:
    runs = [a_run(1, 500, 0, "create", "FIRST_RUN"), *(a_run(n, n, 0, "full", "QUERY_CHANGED") for n in (10, 30, 20))]
    assert estimate(EDITED, a_table(*runs), a_source(1)) == Amount(0, 20, 500)
    assert estimate(EDITED, a_table(*runs, rows=15), a_source(1)) == Amount(0, 15, 15)


def test_an_edit_of_a_model_that_was_never_edited_may_publish_all_rows() -> None:
    assert estimate(EDITED, a_table(a_run(1, 500, 0, "create", "FIRST_RUN")), a_source(1)) == Amount(0, 500, 500)


def test_a_first_run_publishes_its_rows_and_one_without_work_none() -> None:
    assert estimate(Decision("create", "FIRST_RUN"), TableState(), a_source(1), new_rows=Amount(0, 70, 80)) == Amount(
        0, 70, 80
    )
    assert estimate(Decision("unchanged", "NOTHING_NEW"), a_table(), a_source(1), 5) == Amount()


@pytest.mark.parametrize("decision", [FOLLOWED, Decision("full", "COST"), Decision("full", "EVERYTHING_AFFECTED")])
def test_a_run_publishes_for_each_change_row_what_past_incremental_runs_have(decision: Decision) -> None:
    source = a_source(1_000, 10, 20, 40)
    runs = (a_run(1, 500, 0, "create", "FIRST_RUN"), a_run(2, 5, 1), a_run(3, 20, 2), a_run(4, 80, 3))
    assert estimate(decision, a_table(*runs), source, changed=100) == Amount(50, 100, 200)
    assert estimate(decision, a_table(*runs, rows=60), source, changed=100) == Amount(50, 100, 100)


def test_without_past_runs_a_table_of_fewer_rows_than_its_source_publishes_fewer() -> None:
    first = a_run(1, 100, 0, "create", "FIRST_RUN")
    assert estimate(FOLLOWED, a_table(first, rows=100), a_source(1_000), changed=50) == Amount(0, 5, 50)
    assert estimate(FOLLOWED, a_table(first, rows=9_000), a_source(1_000), changed=50) == Amount(0, 50, 50)


def test_changes_that_a_table_will_publish_are_one_more_commit() -> None:
    source = add_changes(a_source(1_000, 10), 30, 2.5)
    window = Window(str(UP), v(1), source.version)
    assert source.count_rows_in(window) == 30
    assert [commit.bytes for commit in source.list_commits_between(window)] == [75]
    assert source.version.sequence == 2
    assert add_changes(source, 1, 1.0).version.sequence == 3
