"""Clones: the same files, the same rows, and each side goes its own way."""

from __future__ import annotations

import datetime
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from arctic_runtime.catalog.observation.clones import list_clones, observe_clone, observe_clone_tags
from arctic_runtime.effects import parse_failpoints, set_failpoint
from arctic_runtime.errors import ArcticError, ConfigError, SourceError
from arctic_runtime.model.clone import list_tagged_tables
from arctic_runtime.model.forgetting import Forget
from arctic_runtime.operations.clones import read_clone_info
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS
from arctic_runtime.spark.forget.forgetting import Forgetting
from arctic_runtime.spark.maintenance.adoption import adopt_table, undo_adoption
from arctic_runtime.spark.maintenance.cloning import clone_model, note_use, reset_model
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_versions, find_orphan_files
from arctic_runtime.spark.maintenance.window_changes import read_changes_between
from arctic_runtime.spark.refresh.overwrite import restore_version
from arctic_runtime.spark.refresh.run import Refresh
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, g string, v int"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
MORE = [*ROWS, (4, "d", 40)]
DAY_SECONDS = 86_400
KEPT = {"retention": {"changes": "1d", "versions": "1d"}}


def later(days: int) -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)


def clone_of(
    lake: Warehouse, dev: Warehouse, model: Model, *upstreams: Model, stamp: str = "s", replaces: bool = False
) -> Model:
    """Makes a clone of the model of `lake` in `dev`, whose upstreams are those of `dev`."""
    names = {dev.table(upstream.table.name): upstream.table for upstream in upstreams}
    sql = model.sql.replace(f"`{lake.namespace}`", f"`{dev.namespace}`") if upstreams else model.sql
    sql = sql.replace(f".{lake.namespace}.", f".{dev.namespace}.") if upstreams else sql
    own = replace(model, table=dev.table(model.table.name), sql=sql)
    request = CloneRequest(model.table, round(1000 * time.time()), stamp, "me", names)
    clone_model(dev.session_of(own), request, replaces)
    return own


def age_files(lake: Warehouse) -> None:
    """Makes all files of the namespace ten days old, so that they may be orphans."""
    before = time.time() - 10 * DAY_SECONDS
    warehouse = Path(lake.environment.profile.catalog_properties["warehouse"])
    for file in (warehouse / lake.namespace).rglob("*"):
        if file.is_file():
            os.utime(file, (before, before))


def tags_of(lake: Warehouse, model: Model) -> list[Any]:
    return observe_clone_tags(lake.reader, list_tagged_tables(model.table))


def forgetting(
    lake: Warehouse, model: Model, now: datetime.datetime | None = None, keys: tuple[str, ...] = ("1",), **request: Any
) -> Forgetting:
    asked = Forget(keys, **request)
    return Forgetting(model, (model,), lake.reader, lambda: lake.spark, asked, now=now or later(0))


def list_files(lake: Warehouse) -> list[Path]:
    """All files below the folder of the namespace, also those of tables that were dropped."""
    warehouse = Path(lake.environment.profile.catalog_properties["warehouse"])
    return [path for path in (warehouse / lake.namespace).rglob("*") if path.is_file()]


def read_values(lake: Warehouse) -> set[Any]:
    """All values in all data files of the models of a namespace, also in structs; sources are left out."""
    columns = (
        column
        for path in list_files(lake)
        if path.suffix == ".parquet" and "/source/" not in str(path)
        for column in pq.read_table(path).flatten().columns
    )
    return {value for column in columns for value in column.to_pylist()}


def has_metadata_files_alone(lake: Warehouse) -> bool:
    return {path.name.partition(".")[2] for path in list_files(lake)} == {"metadata.json"}


@pytest.fixture
def dev(lake: Warehouse) -> Warehouse:
    name = f"{lake.namespace}_dev"
    lake.spark.sql(f"create namespace {lake.environment.profile.catalog}.{name}")
    return replace(lake, namespace=name)


def build(lake: Warehouse, **config: Any) -> Model:
    """Makes a model of two versions, with rows that a merge has deleted from its files."""
    model = lake.model("m", "select id, g, v from {source}", primary_key="id", **{**KEPT, **config})
    lake.load("source", [(0, "z", 0), *ROWS], COLUMNS)
    lake.run(model)
    lake.load("source", MORE, COLUMNS)
    lake.run(model)
    return model


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_clone_has_the_rows_and_goes_its_own_way(lake: Warehouse, dev: Warehouse, merge: str) -> None:
    model = build(lake, merge=merge)
    clone = clone_of(lake, dev, model)
    assert dev.rows(clone) == MORE
    assert dev.run(clone, refuse).mode == "unchanged"
    lake.load("source", [*MORE[1:], (5, "e", 50)], COLUMNS)
    done = dev.run(clone)
    assert (done.mode, dev.actions(done)) == ("incremental", (1, 0, 1))
    assert dev.rows(clone) == [*MORE[1:], (5, "e", 50)]
    assert lake.rows(model) == MORE
    assert dev.broken(clone) == []
    made = observe_clone(dev.reader, clone.table)
    assert made is not None
    since = read_changes_between(dev.session_of(clone), str(made.origin.version.snapshot), dev.head(clone), 10)
    assert [(row["_action"], row["id"]) for row in since] == [("delete", 1), ("insert", 5)]
    lake.run(model)
    assert lake.rows(model) == [*MORE[1:], (5, "e", 50)]
    assert lake.broken(model) == []


@pytest.mark.parametrize(("theirs", "own"), [("on_write", "on_read"), ("on_read", "on_write")])
def test_a_clone_may_be_merged_in_another_way(lake: Warehouse, dev: Warehouse, theirs: str, own: str) -> None:
    model = build(lake, merge=theirs)
    other = replace(model, config=replace(model.config, merge=own))  # type: ignore[arg-type]
    clone = clone_of(lake, dev, other)
    assert dev.rows(clone) == MORE
    assert dev.run(clone, refuse).mode == "unchanged"
    assert dev.broken(clone) == []


def test_columns_and_layout_of_a_clone_are_its_own(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    clone = clone_of(lake, dev, model)
    sql = clone.sql.replace("id, g, v", "id, cast(v as bigint) as v, 'x' as h")
    changed = replace(clone, sql=sql, config=replace(clone.config, nodes=4, on_schema_change="sync_all_columns"))
    done = dev.run(changed)
    assert (done.reason, dev.actions(done)) == ("EDITED", (0, 4, 0))
    assert dev.rows(changed) == [(row[0], row[2], "x") for row in MORE]
    assert dev.broken(changed) == []
    assert lake.rows(model) == MORE
    assert lake.run(model, refuse).mode == "unchanged"


@pytest.mark.slow
def test_clones_that_are_made_together_follow_one_another(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    total = lake.model("total", "select g, sum(v) as v from {m} group by g", primary_key="g", refresh="incremental")
    versions = lake.model("versions", "select id, v from {m}", primary_key="id", history="scd2", current_view=True)
    log = lake.model(
        "log", "select id, v, _action from {changes(m)}", primary_key="id", input="changes", merge_columns={"v": "sum"},
        exclude_columns=["_action"],
    )  # fmt: skip
    events = lake.model(
        "events", "select id, v, _action as what from {changes(m)}", primary_key=["id", "what"], input="changes"
    )
    below = [total, versions, log, events]
    for one in below:
        lake.run(one)
    lake.load("source", [(1, "a", 11), *MORE[1:]], COLUMNS)
    lake.run(model)
    lake.run(total)
    clones = [clone_of(lake, dev, one, model) for one in below]
    clone = clone_of(lake, dev, model)
    assert [dev.rows(one) for one in clones] == [lake.rows(one) for one in below]
    assert dev.spark.table(dev.sql_name("versions_current")).count() == len(MORE)
    assert dev.run(clone, refuse).mode == "unchanged"
    assert dev.run(clones[0], refuse).mode == "unchanged"
    lake.load("source", [(1, "a", 11), (2, "c", 21), (3, "a", 30)], COLUMNS)
    assert [dev.run(one).mode for one in (clone, *clones)] == ["incremental"] * 5
    assert [lake.run(one).mode for one in (model, *below)] == ["incremental"] * 5
    valid_times = ("_valid_from", "_valid_to")
    for own, theirs in zip(clones, below, strict=True):
        rows, expected = (
            side.spark.table(str(one.table)).drop(*valid_times).collect() for side, one in ((dev, own), (lake, theirs))
        )
        assert sorted(rows) == sorted(expected)
        assert dev.broken(own) == []


def test_a_clone_does_not_read_all_changes_of_its_origins_upstream_again(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    sums = {"primary_key": "g", "input": "changes", "merge_columns": {"v": "sum"}}
    log = lake.model("log", "select g, v from {changes(m)}", **sums)
    lake.run(log)
    clone = clone_of(lake, dev, log, model)
    with pytest.raises(SourceError, match="can't go on with the changes"):
        dev.run(replace(clone, sql=log.sql))
    clone_of(lake, dev, model, stamp="another")
    with pytest.raises(SourceError, match="dropped and created again"):
        dev.run(clone)


def test_a_table_without_a_key_is_cloned(lake: Warehouse, dev: Warehouse) -> None:
    lake.append("events", [(1, "a", 1)], COLUMNS)
    model = lake.model("m", "select id, g, v from {changes(events)}", primary_key=None, input="changes")
    lake.run(model)
    clone = clone_of(lake, dev, model)
    assert dev.run(clone, refuse).mode == "unchanged"
    lake.append("events", [(2, "b", 2)], COLUMNS)
    assert dev.run(clone).mode == "incremental"
    assert (len(dev.rows(clone)), len(lake.rows(model))) == (2, 1)


@pytest.mark.in_turn
def test_a_clone_and_an_expired_table_leave_the_same_rows_frozen(lake: Warehouse, dev: Warehouse) -> None:
    lake.load("source", ROWS, COLUMNS)
    model = lake.model("m", "select * from {source}", primary_key="id", frozen_where="v < 15", **KEPT)
    lake.run(model)
    lake.load("source", [(1, "a", 50), *ROWS[1:]], COLUMNS)
    assert lake.run(model).frozen == 1
    clone = clone_of(lake, dev, model)
    expire_versions(lake.session_of(model, now=later(3)), ())
    # The row that the query had before is not frozen; that of the tables is.
    lake.load("source", [(1, "a", 60), (2, "b", 21), *ROWS[2:]], COLUMNS)
    for side, own in ((dev, clone), (lake, model)):
        outcome = side.run(own)
        assert (outcome.mode, side.actions(outcome), outcome.frozen) == ("incremental", (0, 1, 0), 1)
        assert side.rows(own) == [ROWS[0], (2, "b", 21), ROWS[2]]


@pytest.mark.in_turn
def test_upkeep_of_the_origin_keeps_the_files_of_a_clone(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    clone = clone_of(lake, dev, model)
    version = lake.head(model)
    lake.load("source", [(7, "n", 70)], COLUMNS)
    lake.run(model)
    lake.run(replace(model, config=replace(model.config, nodes=2)))
    compact_table(lake.session_of(model), "full")
    expired = expire_versions(lake.session_of(model, now=later(10)), [])
    assert expired.steps
    age_files(lake)
    find_orphan_files(lake.session_of(model), 3 * DAY_SECONDS, remove=True)
    assert dev.rows(clone) == MORE
    restore_version(lake.session_of(model), str(version))
    assert lake.rows(model) == MORE
    assert dev.broken(clone) == []
    (seen,) = tags_of(lake, model)
    assert read_clone_info(lake.reader, model.table, seen).kept_bytes > 0
    reset_model(lake.session_of(model))
    assert dev.rows(clone) == MORE
    lake.run(model)
    with pytest.raises(ConfigError, match="can't be told from those of clones"):
        find_orphan_files(lake.session_of(model), DAY_SECONDS, remove=True)
    lake.load("source", MORE[:1], COLUMNS)
    dev.run(clone)
    assert dev.rows(clone) == MORE[:1]
    assert dev.broken(clone) == []


@pytest.mark.in_turn
def test_upkeep_of_a_clone_keeps_the_files_of_its_origin(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    clone = clone_of(lake, dev, model)
    for rows in ([(7, "n", 70)], [(8, "m", 80)]):
        lake.load("source", rows, COLUMNS)
        dev.run(clone)
    compact_table(dev.session_of(clone), "full")
    plan = expire_versions(dev.session_of(clone, now=later(10)), [])
    assert {(step.table, step.keeps_files) for step in plan.steps} == {(clone.table, True), (clone.table.changes, True)}
    assert find_orphan_files(dev.session_of(clone), DAY_SECONDS, remove=True) == {
        str(clone.table): [],
        str(clone.table.changes): [],
    }
    age_files(lake)
    age_files(dev)
    orphans = find_orphan_files(dev.session_of(clone), 3 * DAY_SECONDS, remove=True)
    assert all(orphans.values())
    assert all(f"/{dev.namespace}/" in file for files in orphans.values() for file in files)
    lake.load("source", [(8, "m", 80), (9, "k", 90)], COLUMNS)
    assert dev.run(clone).mode == "incremental"
    assert dev.broken(clone) == []
    lake.load("source", [(8, "m", 80)], COLUMNS)
    dev.run(clone)
    with pytest.raises(ConfigError, match="is a clone"):
        Forgetting(clone, (clone,), dev.reader, lambda: dev.spark, Forget(keys=("8",))).run_forget()
    assert lake.rows(model) == MORE
    assert lake.broken(model) == []
    assert dev.rows(clone) == [(8, "m", 80)]
    reset_model(dev.session_of(clone))
    assert has_metadata_files_alone(dev)
    assert tags_of(lake, model) == []
    assert lake.rows(model) == MORE
    assert lake.broken(model) == []
    for table in list_tagged_tables(clone.table):
        with suppress(*SPARK_ERRORS):
            dev.spark.sql(f"drop table {dev.sql_name(table.name)} purge")
    assert lake.rows(model) == MORE


def test_iceberg_refuses_to_delete_files_of_a_clone(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    clone_of(lake, dev, model)
    catalog, table = lake.environment.profile.catalog, f"{dev.namespace}.m"
    for call in (
        f"drop table {dev.sql_name('m')} purge",
        f"call {catalog}.system.expire_snapshots(table => '{table}', older_than => timestamp '2100-01-01 00:00:00')",
        f"call {catalog}.system.remove_orphan_files(table => '{table}', older_than => timestamp '2000-01-01 00:00:00')",
    ):
        with pytest.raises(SPARK_ERRORS, match="GC is disabled"):
            dev.spark.sql(call)
    assert lake.rows(model) == MORE


@pytest.mark.in_turn
def test_a_clone_that_holds_forgotten_rows_is_dropped_with_all_of_its_files(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    clone = clone_of(lake, dev, model)
    lake.load("source", [(1, "SECRET", 11), *MORE[1:]], COLUMNS)
    for each in (lake.run(model), dev.run(clone)):
        assert each.mode == "incremental"
    lake.load("source", MORE[1:], COLUMNS)
    assert {"SECRET"} <= read_values(lake) & read_values(dev)
    (planned,) = forgetting(lake, model).plan_forget().clones
    assert (planned.clone, planned.origin, planned.action) == (clone.table, model.table, "none")
    assert planned.used_at is not None
    with pytest.raises(ConfigError, match=rf"clones hold rows.*\n.*{clone.table}.*\n?.*--drop-clones"):
        forgetting(lake, model).run_forget()
    assert dev.rows(clone) == [(1, "SECRET", 11), *MORE[1:]]
    assert not [name for name in lake.reader.list_tables(lake.namespace) if name.endswith("__forget")]
    with set_failpoint(parse_failpoints("reset.drop=raise")), pytest.raises(ArcticError):
        forgetting(lake, model, drop_clones=True).run_forget()
    assert [step.action for step in forgetting(lake, model, drop_clones=True).plan_forget().clones] == ["drop"]
    audited: list[Any] = []
    certificate = replace(forgetting(lake, model, drop_clones=True), audit=audited.append).run_forget()
    assert certificate.is_clean, certificate
    assert [facts["dropped_clone"] for facts in audited] == [str(clone.table)]
    assert certificate.dropped_clones == (str(clone.table),)
    assert "SECRET" not in read_values(lake)
    assert has_metadata_files_alone(dev)
    assert observe_clone(dev.reader, clone.table) is None
    assert tags_of(lake, model) == []
    assert lake.broken(model) == []
    clone_of(lake, dev, model)
    assert dev.rows(clone) == MORE[1:]


@pytest.mark.in_turn
def test_only_clones_that_nobody_uses_or_that_may_hold_the_rows_are_dropped(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    old = clone_of(lake, dev, model)
    lake.load("source", [*MORE, (5, "SECRET", 50)], COLUMNS)
    lake.run(model)
    lake.load("source", MORE, COLUMNS)
    assert forgetting(lake, model, keys=("5",)).plan_forget().clones == ()
    assert forgetting(lake, model, keys=(), where="g = 'SECRET'").plan_forget().clones == ()
    for request in ({"keys": ("4",)}, {"keys": (), "where": "g = 'd'"}, {"keys": ("5",), "drop_clones": True}):
        (planned,) = forgetting(lake, model, **request).plan_forget().clones
        assert (planned.clone, planned.used_at) == (old.table, None)
    certificate = forgetting(lake, model, keys=("5",)).run_forget()
    assert certificate.is_clean, certificate
    assert dev.rows(old) == MORE
    lake.load("source", MORE[:3], COLUMNS)
    certificate = forgetting(lake, model, keys=("4",), now=later(15)).run_forget()
    assert certificate.is_clean, certificate
    assert certificate.dropped_clones == (str(old.table),)
    assert observe_clone(dev.reader, old.table) is None


def test_a_clone_that_nobody_uses_is_dropped_by_upkeep_of_its_origin(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    clone = clone_of(lake, dev, model)
    lake.load("source", MORE[1:], COLUMNS)
    dev.run(clone)
    note_use(dev.session_of(clone, now=later(10)), dev.state(clone))
    expire_versions(lake.session_of(model, now=later(20)), [])
    assert dev.rows(clone) == MORE[1:]
    plan = expire_versions(lake.session_of(model, now=later(25)), [])
    assert [(step.clone, step.is_dropped, step.reason) for step in plan.clones] == [
        (clone.table, True, "it was not run for 15 days")
    ]
    assert observe_clone(dev.reader, clone.table) is None
    assert has_metadata_files_alone(dev)
    assert tags_of(lake, model) == []
    assert lake.rows(model) == MORE


@pytest.mark.in_turn
def test_a_clone_of_an_adopted_table_keeps_its_baseline(lake: Warehouse, dev: Warehouse) -> None:
    lake.frame(ROWS, COLUMNS).createOrReplaceTempView("others_rows")
    lake.spark.sql(f"create table {lake.sql_name('m')} using iceberg as select * from others_rows")
    model = lake.model("m", "select id, g, v from {source}", primary_key="id", **KEPT)
    adopt_table(lake.session_of(model))
    lake.load("source", MORE[1:], COLUMNS)
    lake.run(model)
    clone = clone_of(lake, dev, model)
    assert dev.rows(clone) == MORE[1:]
    lake.load("source", MORE[:1], COLUMNS)
    dev.run(replace(clone, config=replace(clone.config, nodes=2)))
    assert dev.rows(clone) == MORE[:1]
    assert dev.broken(clone) == []
    with pytest.raises(ConfigError, match="can't be given back"):
        undo_adoption(dev.session_of(clone))
    assert lake.rows(model) == MORE[1:]
    assert lake.broken(model) == []


def test_what_can_not_be_cloned_is_refused(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    with pytest.raises(ConfigError, match="has not been built"):
        clone_of(lake, dev, lake.model("none", "select 1 as id", primary_key="id"))
    with pytest.raises(ConfigError, match="another primary key"):
        clone_of(lake, dev, replace(model, config=replace(model.config, primary_key=("g",))))
    clone = clone_of(lake, dev, model)
    with pytest.raises(ConfigError, match="exists"):
        clone_of(lake, dev, model)
    third = replace(clone, table=lake.table("third"))
    with pytest.raises(ConfigError, match="its origin is a clone"):
        clone_model(lake.session_of(third), CloneRequest(clone.table, 0, "s"))
    elsewhere = replace(model.table, catalog="other")
    with pytest.raises(ConfigError, match="in the same catalog"):
        clone_model(lake.session_of(third), CloneRequest(elsewhere, 0, "s"))


def test_a_clone_is_made_anew(lake: Warehouse, dev: Warehouse) -> None:
    model = build(lake)
    clone = clone_of(lake, dev, model)
    lake.load("source", ROWS, COLUMNS)
    lake.run(model)
    time.sleep(0.002)
    assert clone_of(lake, dev, model, stamp="t", replaces=True) == clone
    assert dev.rows(clone) == ROWS
    assert len(tags_of(lake, model)) == 1
    assert [one.table for one in list_clones(lake.reader) if one.origin.model == model.table] == [clone.table]


@pytest.mark.in_turn
@pytest.mark.parametrize("effect", ["clone.tag", "clone.write", "clone.register", "view.replace"])
@pytest.mark.parametrize("mode", ["raise", "raise-after"])
def test_a_clone_whose_making_died_is_made_again(lake: Warehouse, dev: Warehouse, effect: str, mode: str) -> None:
    model = build(lake, merge="on_read")
    with set_failpoint(parse_failpoints(f"{effect}={mode}")), pytest.raises((ArcticError, *SPARK_ERRORS)):
        clone_of(lake, dev, model)
    time.sleep(0.002)
    is_finished = (effect, mode) == ("view.replace", "raise-after")
    clone = clone_of(lake, dev, model, replaces=is_finished)
    assert dev.rows(clone) == MORE
    expire_versions(lake.session_of(model, now=later(2)), [])
    assert len(tags_of(lake, model)) == 1
    assert dev.run(clone, refuse).mode == "unchanged"
    assert dev.broken(clone) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("effect", ["clone.write", "clone.register"])
def test_a_run_builds_what_a_clone_that_died_lacks(lake: Warehouse, dev: Warehouse, effect: str) -> None:
    model = build(lake)
    own = replace(model, table=dev.table("m"))
    with set_failpoint(parse_failpoints(f"{effect}=raise@2")), pytest.raises(ArcticError):
        clone_of(lake, dev, model)
    Refresh.from_model(own, dev.reader, lambda: dev.spark).run_refresh()
    assert dev.rows(own) == MORE
    assert dev.broken(own) == []
