"""Facts for freshness are those of the rows that readers see, and never older than the progress that goes with them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from arctic_runtime.catalog.observation import table_facts
from arctic_runtime.catalog.observation.table_facts import observe_facts, to_facts
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.ingestion import ChangeSource, Progress, SourceProgress, to_millis
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, TableState, ViewState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version

TABLE = TableName("lake", "ods", "orders")
SOURCE = ChangeSource("shop", TableName("lake", "ods", "shop__dead_letters"))


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, timezone.utc)


def version(number: int) -> Version:
    return Version("log", number, number)


def commit(number: int, rows: int = 1) -> Commit:
    """The commit of a run that read the source as of its own number, in seconds."""
    run = RunSummary(
        run=str(number),
        source_time_ms=to_millis(at(number)),
        shown_before_ms=to_millis(at(number - 1)),
        offsets={"up": version(number)},
    )
    return Commit(version(number), number - 1 or None, "append", rows, 0, run.encode(), number * 1000)


def state(merged: int, *commits: Commit, head: int | None = None) -> TableState:
    base = BaseState("base", (), 1, version(merged), 1, {})
    view = None if head is None else ViewState((), 1, merged, head)
    return TableState(ChangeTableState("log", (), commits, {}), base, view)


def facts(found: TableState, merge: Any = "on_write", ingested: bool = True, caught_up: int = 0) -> Any:
    model = Model(TABLE, "", ModelConfig(("id",), merge=merge))
    if ingested:
        model = replace(model, ingested_from="public.orders", source=SOURCE)
    assert found.changes is not None
    return to_facts(model, found, found.changes, SourceProgress(Progress(caught_up=at(caught_up)), 0))


def test_a_commit_that_is_not_merged_yet_is_not_shown() -> None:
    assert facts(state(2, commit(1), commit(2), commit(3))).origin.as_of == at(2)
    assert facts(state(3, commit(1), commit(2), commit(3))).origin.as_of == at(3)


def test_progress_after_a_commit_is_not_that_of_readers_who_do_not_see_the_commit() -> None:
    """A slow process may set a view back, long after the progress was saved."""
    commits = (commit(1), commit(2), commit(3))
    assert facts(state(1, *commits, head=3), "on_read", caught_up=9).origin.as_of == at(9)
    assert facts(state(1, *commits, head=2), "on_read", caught_up=9).origin.as_of == at(2)
    assert facts(state(1, *commits, head=1), "on_read", caught_up=9).origin.as_of == at(1)


def test_a_view_shows_the_commits_up_to_the_one_that_it_pins() -> None:
    commits = (commit(1), commit(2), commit(3))
    assert facts(state(1, *commits, head=2), "on_read").origin.as_of == at(2)
    assert facts(state(1, *commits, head=3), "on_read").origin.as_of == at(3)


def test_a_view_that_reads_no_changes_shows_what_the_base_is_merged_to_though_that_version_has_expired() -> None:
    assert facts(state(2, commit(3, rows=0), head=2), "on_read").origin.as_of == at(3)
    assert facts(state(2, commit(3), head=2), "on_read", caught_up=9).origin.as_of == at(2)


def test_a_run_that_changed_no_row_is_shown_at_once() -> None:
    assert facts(state(1, commit(1), commit(2, rows=0)), ingested=False).offsets == {"up": version(2)}
    assert facts(state(1, commit(1), commit(2), commit(3, rows=0)), ingested=False).offsets == {"up": version(1)}


def test_a_table_whose_base_is_not_made_yet_shows_nothing() -> None:
    first = replace(commit(1), summary=RunSummary(run="1").encode())
    found = replace(state(1, first), base=None)
    assert facts(found, caught_up=9).origin.as_of is None
    assert facts(found).commits == ()


def test_progress_is_read_before_the_commits_that_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def observe_progress(*_: object) -> SourceProgress:
        read.append("progress")
        return SourceProgress(Progress(), 0)

    def observe_model(*_: object) -> TableState:
        read.append("commits")
        return state(1, commit(1))

    monkeypatch.setattr(table_facts, "observe_progress", observe_progress)
    monkeypatch.setattr(table_facts, "observe_model", observe_model)
    model = Model(TABLE, "", ModelConfig(("id",)), ingested_from="public.orders", source=SOURCE)
    reader: Any = None
    assert observe_facts(reader, TABLE, model) is not None
    assert read == ["progress", "commits"]
