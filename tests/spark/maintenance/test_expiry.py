"""Expiry: old versions are gone, and whoever was behind still reads exactly what happened."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.observation.tables import read_last_offsets
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.expiry import ExpiryPlan
from arctic_runtime.model.files.layout import KEPT_METADATA
from arctic_runtime.model.table import Model
from arctic_runtime.operations.refreshing import perform_refresh
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.maintenance import expiry
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_if_due, expire_versions, plan_expiry
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.spark.tables.test_commits import once_before
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "id int, region string, v int"
CONFIG: dict[str, Any] = {"primary_key": "id", "partition_by": ["region"], "retention": {"versions": "1d"}}
SQL = "select id, region, v from {s}"
LATER = datetime.timedelta(days=2)


def expiring(lake: Warehouse, model: Model, *readers: Model, later: datetime.timedelta = LATER) -> ExpiryPlan:
    """Expiry as it would be after some time."""
    now = datetime.datetime.now(datetime.timezone.utc) + later
    return expire_versions(lake.session_of(model, now=now), [reader.table for reader in readers])


def snapshots(lake: Warehouse, model: Model) -> tuple[int, int]:
    """How many the change table and the base have."""
    names = (model.table.changes, model.base)
    changes, base = (len(lake.reader.load_table(name.schema, name.name).metadata.snapshots) for name in names)
    return changes, base


def put(lake: Warehouse, model: Model, rows: dict[int, tuple[int, str, int]]) -> None:
    lake.load("s", list(rows.values()), COLUMNS)
    lake.run(model)


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_old_versions_expire_and_readers_behind_them_continue_exactly(lake: Warehouse, merge: str) -> None:
    """One reader follows rows, one follows changes; a third has read everything."""
    model = lake.model("m", SQL, merge=merge, **CONFIG)
    rows = {i: (i, "eu" if i % 2 else "us", i) for i in range(20)}
    put(lake, model, rows)
    state = lake.model("state", "select region, sum(v) as v from {m} group by region", primary_key="region")
    events = lake.model("events", "select id, v from {changes(m)}", primary_key="id", input="changes")
    put(lake, model, {**rows, 1: (1, "eu", 100)})
    for reader in (state, events):
        lake.run(reader)
    put(lake, model, {**rows, 1: (1, "eu", 200), 2: (2, "us", 9)})
    rows |= {1: (1, "eu", 300), 3: (3, "us", 9)}
    put(lake, model, rows)
    compact_table(lake.session_of(model), "full")
    before = snapshots(lake, model)
    assert expiring(lake, model, state, events, later=datetime.timedelta()).steps == ()
    plan = expiring(lake, model, state, events)
    assert {step.table for step in plan.steps} >= {model.table.changes}
    assert snapshots(lake, model)[0] < before[0]
    assert lake.rows(model) == sorted(rows.values(), key=repr)
    assert lake.broken(model) == []
    assert lake.left_out(model) == []
    outcome = lake.run(state)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (0, 2, 0))
    outcome = lake.run(events)
    assert (outcome.mode, sum(outcome.rows.values())) == ("incremental", 2)
    for reader in (state, events):
        assert lake.broken(reader) == []
    assert plan_expiry(lake.session_of(model, refuse), []).steps == ()
    expiring(lake, model, state, events)
    assert snapshots(lake, model)[1] == 1
    assert lake.rows(model) == sorted(rows.values(), key=repr)
    assert lake.run(model, refuse).mode == "unchanged"
    assert expiring(lake, model, state, events).steps == ()


@pytest.mark.in_turn
def test_a_base_is_recreated_from_changes_whose_versions_are_gone(lake: Warehouse) -> None:
    """With one version left that brought rows, the rows are still those of many."""
    model = lake.model("m", SQL, **CONFIG)
    rows = {i: (i, "eu", i) for i in range(5)}
    for v in range(3):
        rows |= {1: (1, "eu", v), 5 + v: (5 + v, "us", v)}
        put(lake, model, rows)
    expiring(lake, model)
    assert snapshots(lake, model) == (1, 1)
    lake.spark.sql(f"drop table {lake.sql_name('m')}")
    lake.run(model)
    assert lake.rows(model) == sorted(rows.values(), key=repr)
    assert lake.broken(model) == []


@pytest.mark.slow
def test_a_run_lets_versions_go_once_enough_are_old_and_keeps_those_of_readers(lake: Warehouse) -> None:
    model = lake.model("m", SQL, **{**CONFIG, "partition_by": None})
    forever = lake.model("m", SQL, **{**CONFIG, "partition_by": None, "retention": "off"})
    down = lake.model("down", "select id, v from {m}", primary_key="id")
    for v in range(3):
        put(lake, model, {1: (1, "eu", v)})
        if v == 1:
            lake.run(down)
    later = datetime.datetime.now(datetime.timezone.utc) + LATER

    def after_a_run(item: Model, *readers: Model, enough: int = 20) -> tuple[int, int]:
        session = lake.under(expiry={"snapshots": enough}).session_of(item, now=later)
        expiry.expire_if_due(session, [reader.table for reader in readers])
        return snapshots(lake, model)

    before = snapshots(lake, model)
    assert after_a_run(model) == before
    assert after_a_run(forever, enough=2) == before
    assert after_a_run(model, down, enough=2) == (before[0] - 2, before[1] - 1)
    assert after_a_run(model, enough=3) == (before[0] - 2, before[1] - 1)
    assert after_a_run(model, enough=1) == (1, 1)
    assert lake.rows(model) == [(1, "eu", 2)]
    assert lake.actions(lake.run(down)) == (0, 1, 0)


def test_what_somebody_tags_between_plan_and_expiry_stays(lake: Warehouse) -> None:
    model = lake.model("m", "select id, region, v from {s}", **{**CONFIG, "partition_by": None})
    rows = {1: (1, "eu", 1)}
    for v in range(2):
        put(lake, model, {**rows, 1: (1, "eu", v)})
    oldest = lake.state(model).changes
    assert oldest is not None
    kept = oldest.commits[0].version.snapshot
    tag = f"alter table {lake.sql_name('m__changes')} create tag mine as of version {kept}"
    with once_before("expiry.snapshots", lambda: lake.spark.sql(tag).collect()):
        plan = expiring(lake, model)
    assert any(reason.snapshot == kept and reason.alone for reason in plan.kept)
    snapshots = lake.reader.load_table(lake.namespace, "m__changes").metadata.snapshots
    assert kept in {snapshot.snapshot_id for snapshot in snapshots}
    assert lake.rows(model) == [(1, "eu", 1)]


@pytest.mark.slow
def test_orphans_are_old_files_that_no_branch_and_no_snapshot_has(lake: Warehouse) -> None:
    model = lake.model("m", SQL, **{**CONFIG, "partition_by": None, "retention": None})
    put(lake, model, {1: (1, "eu", 1)})
    table = lake.sql_name("m__changes")
    lake.spark.sql(f"alter table {table} create branch mine").collect()
    lake.spark.table(table).writeTo(f"{table}.branch_mine").append()
    folder = Path(lake.reader.load_table(lake.namespace, "m__changes").location().removeprefix("file:")) / "data"
    old, young = folder / "old.parquet", folder / "young.parquet"
    for file in (old, young):
        file.write_bytes(b"x")
    os.utime(old, (0, 0))
    for file in folder.glob("[0-9]*.parquet"):
        os.utime(file, (0, 0))
    session = lake.session_of(model)
    planned = expiry.find_orphan_files(session, 86_400, remove=False)
    assert [Path(path).name for path in planned[str(model.table.changes)]] == ["old.parquet"]
    assert planned[str(model.base)] == []
    assert old.exists()
    assert expiry.find_orphan_files(session, 86_400, remove=True) == planned
    assert (old.exists(), young.exists()) == (False, True)
    assert lake.spark.table(f"{table}.branch_mine").count() == 2
    assert lake.broken(model) == []
    with pytest.raises(ConfigError, match="expected: an age of 1d or more"):
        expiry.find_orphan_files(session, 3600, remove=True)


@pytest.mark.in_turn
def test_tags_of_snapshots_that_the_view_no_longer_pins_are_dropped_a_day_later(lake: Warehouse) -> None:
    """Expiry drops the tags of all but the pinned snapshot, and with them the rows that they keep."""
    model = lake.model("m", SQL, merge="on_read", **{**CONFIG, "partition_by": None})
    rows = {i: (i, "eu", i) for i in range(4)}
    put(lake, model, rows)
    put(lake, model, {i: (i, "us", i) for i in range(4)})
    rows |= {1: (1, "us", 9)}
    put(lake, model, rows)
    expiring(lake, model)
    table = lake.reader.load_table(lake.namespace, "m__base")
    view = lake.state(model).view
    assert view is not None
    assert {name for name in table.metadata.refs if name != "main"} == {f"arctic_view_{view.base_snapshot}"}
    assert snapshots(lake, model)[1] == 1
    assert lake.rows(model) == sorted(rows.values(), key=repr)


def test_commits_keep_few_metadata_files_and_expiry_brings_older_tables_to_that(lake: Warehouse) -> None:
    model = lake.model("m", "select id, region, v from {s}", **{**CONFIG, "partition_by": None})
    put(lake, model, {1: (1, "eu", 1)})
    names = ("m", "m__changes")

    def properties() -> list[dict[str, str]]:
        tables = [lake.reader.load_table(lake.namespace, name).properties for name in names]
        return [{key: table[key] for key in KEPT_METADATA if key in table} for table in tables]

    assert properties() == [dict(KEPT_METADATA)] * 2
    few = "'write.metadata.previous-versions-max' = '1'"
    lake.spark.sql(f"alter table {lake.sql_name('m')} unset tblproperties ({listed_texts(KEPT_METADATA)})").collect()
    lake.spark.sql(f"alter table {lake.sql_name('m__changes')} set tblproperties ({few})").collect()
    expire_if_due(lake.session_of(model), [])
    assert properties() == [dict(KEPT_METADATA), {**KEPT_METADATA, "write.metadata.previous-versions-max": "1"}]
    put(lake, model, {1: (1, "eu", 2)})
    location = lake.reader.load_table(lake.namespace, "m__changes").location().removeprefix("file:")
    assert len(list(Path(location, "metadata").glob("*.metadata.json"))) == 2
    assert lake.broken(model) == []


def listed_texts(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


@pytest.mark.slow
def test_that_a_table_was_restored_is_known_when_the_restoring_has_expired(lake: Warehouse) -> None:
    model = lake.model("m", "select id, region, v from {changes(s)}", input="changes", **CONFIG)
    lake.append("s", [(1, "eu", 1)], COLUMNS)
    lake.run(model)
    good = lake.head(model)
    for v in (2, 3):
        lake.append("s", [(v, "eu", v)], COLUMNS)
        lake.run(model)
    restore_version(lake.session_of(model), good)
    restored = lake.head(model)
    for v in (4, 5):
        lake.append("s", [(v, "eu", v)], COLUMNS)
        lake.run(model)
    compact_table(lake.session_of(model), "full")
    plan = expiring(lake, model)
    assert restored in {snapshot for step in plan.steps for snapshot in step.snapshots}
    assert lake.broken(model) == []
    assert lake.left_out(model) == [f"the query gives the table: it was restored to version {good}"]


@pytest.mark.slow
def test_metadata_files_of_views_that_were_replaced_are_orphans_and_the_views_own_is_none(lake: Warehouse) -> None:
    model = lake.model("m", SQL, primary_key="id", merge="on_read")
    for number in range(4):
        put(lake, model, {1: (1, "eu", number)})
    current = lake.reader.get_view_file(lake.namespace, "m")
    assert current is not None
    folder = Path(current.removeprefix("file:")).parent
    files = {file.name for file in folder.glob("*.metadata.json")}
    assert expiry.find_orphan_files(lake.session_of(model), 86_400, remove=True)[str(model.table)] == []
    for file in files:
        os.utime(folder / file, (0, 0))
    orphans = expiry.find_orphan_files(lake.session_of(model), 86_400, remove=True)[str(model.table)]
    assert {Path(file).name for file in orphans} == files - {Path(current).name} != set()
    assert [file.name for file in folder.glob("*.metadata.json")] == [Path(current).name]
    assert lake.rows(model) == [(1, "eu", 3)]
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_expiry_waits_for_a_model_of_another_project_until_it_no_longer_runs(lake: Warehouse) -> None:
    """The project that expires knows the other one's model only by its note in the table."""
    model = lake.model("m", SQL, **{**CONFIG, "partition_by": None, "retention": {"versions": "1d", "changes": "1d"}})
    declared = lake.model("foreign", "select id, v from {changes(m)}", primary_key="id", input="changes")
    foreign = replace(declared, foreign_tables=frozenset({model.table, lake.table("nowhere")}))
    began = datetime.datetime.now(datetime.timezone.utc)

    def refresh(days: int = 0, session: Callable[[], SparkSession] = lambda: lake.spark) -> str:
        planner = RefreshPlanner(foreign, lake.reader, now=began + datetime.timedelta(days=days))
        done = perform_refresh(planner, planner.plan_refresh(), session, lambda _: ())
        assert done.failures == {}
        return done.outcome.mode

    def has_read_version() -> bool:
        state = lake.state(model).changes
        assert state is not None
        return state.keeps_version(read_last_offsets(lake.reader, foreign.table)[str(model.table)])

    put(lake, model, {1: (1, "eu", 0)})
    assert refresh() == "create"
    assert refresh(session=refuse) == "unchanged"
    for v in (1, 2, 3):
        put(lake, model, {1: (1, "eu", v)})
    plan = expiring(lake, model)
    assert f"{foreign.table} has read up to it" in {kept.reason for kept in plan.kept}
    assert has_read_version()
    assert (refresh(), lake.rows(foreign)) == ("incremental", [(1, 3)])
    put(lake, model, {1: (1, "eu", 4)})
    assert refresh(days=6) == "incremental"
    for v in (5, 6):
        put(lake, model, {1: (1, "eu", v)})
    expiring(lake, model, later=datetime.timedelta(days=12))
    assert has_read_version()
    expiring(lake, model, later=datetime.timedelta(days=14))
    assert not has_read_version()
    assert lake.broken(model) == []
