"""Change rows that were replaced are gone, and everything that is made of the rest is as it was."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from arctic_runtime.catalog.observation.tables import observe_snapshots
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.model.files.expiry import ExpiryPlan
from arctic_runtime.model.table import Model
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_if_due, expire_versions, plan_expiry
from arctic_runtime.spark.maintenance.window_changes import read_changes_between
from arctic_runtime.spark.refresh.overwrite import restore_version
from arctic_runtime.spark.tables.table_session import TableSession
from tests.spark.warehouse import Warehouse, refuse

COLUMNS = "id int, v int"
SQL = "select id, v from {s}"
CONFIG: dict[str, Any] = {"primary_key": "id", "retention": {"changes": "1d", "versions": "1d"}}
LATER = datetime.timedelta(days=2)


def later(lake: Warehouse, model: Model) -> TableSession:
    """A look at a table after some time."""
    now = datetime.datetime.now(datetime.timezone.utc) + LATER
    return lake.session_of(model, now=now)


def expired(lake: Warehouse, model: Model, *readers: Model) -> ExpiryPlan:
    return expire_versions(later(lake, model), [reader.table for reader in readers])


def put(lake: Warehouse, model: Model, rows: dict[int, int]) -> None:
    lake.load("s", list(rows.items()), COLUMNS)
    lake.run(model)


def list_changes(lake: Warehouse, model: Model) -> list[tuple[Any, ...]]:
    """Key, value and action of all change rows, in order."""
    order = "_last_updated_sequence_number, id"
    sql = lake.spark.sql(f"select id, v, _action from {lake.sql_name('m__changes')} order by {order}")
    return [tuple(row) for row in sql.collect()]


def moved(lake: Warehouse, model: Model) -> dict[int, int]:
    """A row inserted, updated twice, deleted, made again; others once or never changed."""
    rows = {i: i for i in range(4)}
    put(lake, model, rows)
    for v in (10, 20):
        put(lake, model, rows | {1: v})
    put(lake, model, {0: 0, 1: 30, 3: 3})
    put(lake, model, {0: 0, 1: 30, 2: 40, 3: 3})
    return {0: 0, 1: 30, 2: 40, 3: 3}


def exact(lake: Warehouse, *models: Model) -> None:
    for model in models:
        assert lake.broken(model) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_replaced_rows_are_removed_and_readers_continue(lake: Warehouse, merge: str) -> None:
    model = lake.model("m", SQL, merge=merge, **CONFIG)
    rows = moved(lake, model)
    state = lake.model("state", "select id % 2 as half, sum(v) as v from {m} group by 1", primary_key="half")
    events = lake.model("events", "select id, v from {changes(m)}", primary_key="id", input="changes")
    for reader in (state, events):
        lake.run(reader)
    compact_table(lake.session_of(model), "major")
    plan = expired(lake, model, state, events)
    assert plan.changelog_compaction is not None
    assert list_changes(lake, model) == [(0, 0, "insert"), (3, 3, "insert"), (1, 30, "update"), (2, 40, "insert")]
    assert lake.rows(model) == sorted(rows.items(), key=repr)
    assert plan_expiry(later(lake, model), []).changelog_compaction is None
    assert lake.run(state, refuse).mode == "unchanged"
    put(lake, model, rows | {1: 50, 9: 9})
    for reader in (state, events):
        assert lake.run(reader).mode == "incremental"
    exact(lake, model, state, events)


@pytest.mark.in_turn
def test_a_full_compaction_leaves_no_deleted_change_row_for_readers_without_vectors(lake: Warehouse) -> None:
    model = lake.model("m", SQL, **CONFIG)
    rows = {i: i for i in range(40)}
    put(lake, model, rows)
    events = lake.model("events", "select id, v from {changes(m)}", primary_key="id", input="changes")
    for v in (50, 60):
        put(lake, model, rows | {1: v})
    lake.run(events)
    assert expired(lake, model, events).changelog_compaction is not None
    vectors = f"select count(*) from {lake.sql_name('m__changes')}.delete_files"
    left = list_changes(lake, model)
    assert lake.spark.sql(vectors).first()[0] > 0
    compact_table(lake.session_of(model), "full")
    assert lake.spark.sql(vectors).first()[0] == 0
    assert list_changes(lake, model) == left
    assert lake.run(events, refuse).mode == "unchanged"
    put(lake, model, rows | {1: 70})
    assert lake.actions(lake.run(events)) == (0, 1, 0)
    exact(lake, model, events)


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_base_is_recreated_of_what_is_left(lake: Warehouse, merge: str) -> None:
    model = lake.model("m", SQL, merge=merge, **CONFIG)
    rows = moved(lake, model)
    compact_table(lake.session_of(model), "major")
    expired(lake, model)
    put(lake, model, rows | {1: 50, 9: 9})
    lake.spark.sql(f"drop table {lake.sql_name('m' if merge == 'on_write' else 'm__base')}")
    lake.run(model)
    assert lake.rows(model) == sorted((rows | {1: 50, 9: 9}).items(), key=repr)
    exact(lake, model)
    compact_table(lake.session_of(model), "full")
    assert len(list_changes(lake, model)) == 6
    exact(lake, model)


@pytest.mark.slow
def test_rows_stay_that_a_reader_has_yet_to_read_and_the_last_of_a_key_that_is_gone(lake: Warehouse) -> None:
    model = lake.model("m", SQL, **CONFIG)
    put(lake, model, {1: 1, 2: 2})
    put(lake, model, {1: 10, 2: 2})
    events = lake.model("events", "select id, v from {changes(m)}", primary_key="id", input="changes")
    lake.run(events)
    put(lake, model, {1: 20})
    plan = expired(lake, model, events)
    assert plan.waits_for == (f"{events.table} has read up to it",)
    assert list_changes(lake, model) == [(2, 2, "insert"), (1, 10, "update"), (1, 20, "update"), (2, 2, "delete")]
    outcome = lake.run(events)
    assert (outcome.mode, sum(outcome.rows.values())) == ("incremental", 1)
    expired(lake, model, events)
    assert list_changes(lake, model) == [(1, 20, "update"), (2, 2, "delete")]
    put(lake, model, {1: 20, 2: 3})
    assert list_changes(lake, model)[-1] == (2, 3, "insert")
    lake.run(events)
    exact(lake, model, events)


@pytest.mark.slow
def test_a_reader_that_nobody_knew_of_is_informed_or_recomputed(lake: Warehouse) -> None:
    model = lake.model("m", SQL, **CONFIG)
    state = lake.model("state", "select id, v + 1 as v from {m}", primary_key="id", refresh="incremental")
    events = lake.model("events", "select id, v from {changes(m)}", primary_key="id", input="changes")
    put(lake, model, {1: 1, 2: 2})
    for reader in (state, events):
        lake.run(reader)
    first = lake.head(model)
    moved(lake, model)
    expire_if_due(later(lake, model), [])
    assert len(list_changes(lake, model)) == 4
    assert len(observe_snapshots(lake.reader, model.table.changes).lineage) > 5
    expired(lake, model)
    outcome = lake.run(state)
    assert (outcome.mode, outcome.reason) == ("full", "UPSTREAM_EXPIRED")
    with pytest.raises(SourceError, match=r"UPSTREAM_EXPIRED[\s\S]*only the newest change row of each key"):
        lake.run(events)
    lake.run(events, full_refresh=True)
    exact(lake, model, state, events)
    with pytest.raises(ConfigError, match="has no version"):
        read_changes_between(lake.session_of(model), first, lake.head(model), 9)


@pytest.mark.slow
def test_a_run_that_dies_before_the_rows_go_leaves_a_right_table(lake: Warehouse) -> None:
    model = lake.model("m", SQL, **CONFIG)
    rows = moved(lake, model)
    before = list_changes(lake, model)

    def dies(name: str, action: Callable[[], Any]) -> Any:
        if name == "changelog_compaction.delete":
            raise KeyboardInterrupt
        return action()

    with set_failpoint(dies), pytest.raises(KeyboardInterrupt):
        expired(lake, model)
    assert list_changes(lake, model) == before
    exact(lake, model)
    expired(lake, model)
    assert len(list_changes(lake, model)) == 4
    put(lake, model, rows | {0: 7})
    put(lake, model, rows | {0: 8})
    expired(lake, model)
    assert list_changes(lake, model) == [(3, 3, "insert"), (1, 30, "update"), (2, 40, "insert"), (0, 8, "update")]
    exact(lake, model)


@pytest.mark.in_turn
def test_late_events_are_still_known_after_a_restore(lake: Warehouse) -> None:
    """A restored row has no place in the order of events; the one that it has replaced has."""
    sql = "select id, v, lsn, op from {changes(events)}"
    declared = {"input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'", "exclude_columns": ["op", "lsn"]}
    model = lake.model("m", sql, primary_key="id", retention={"changes": "1d"}, **declared)
    shape = "id int, v int, lsn bigint, op string"
    lake.append("events", [(1, 10, 10, "c"), (2, 10, 10, "c")], shape)
    lake.run(model)
    good = lake.head(model)
    lake.append("events", [(1, 30, 30, "u")], shape)
    lake.run(model)
    restore_version(lake.session_of(model), good)
    lake.append("events", [(2, 40, 40, "u")], shape)
    lake.run(model)
    expired(lake, model)
    assert [(key, v) for key, v, _ in list_changes(lake, model)] == [(1, 30), (1, 10), (2, 40)]
    exact(lake, model)
    lake.append("events", [(1, 20, 20, "u"), (2, 20, 20, "u")], shape)
    lake.run(model)
    assert lake.rows(model) == [(1, 10), (2, 40)]
    exact(lake, model)
