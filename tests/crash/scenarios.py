"""Every effect by its name, and one scenario that reaches it: tables before, what is done to them, and who reads them.

`SCENARIOS` covers all names of `EFFECTS`. What a scenario does can be done again wherever it ended before: that is what
a user does after a run that died.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch
from arctic_runtime.catalog.branch.catalog_pointers import BranchScope
from arctic_runtime.catalog.branch.publication_record import list_records
from arctic_runtime.catalog.lease import Lease, LeaseTimes
from arctic_runtime.catalog.observation.clones import observe_clone, observe_clone_tags
from arctic_runtime.catalog.observation.tables import observe_savepoints
from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.catalog.table_samples import TableSample, TableSamples
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import CatalogError, SourceError
from arctic_runtime.ingest.dead_letters.replay import replay_dead_letters
from arctic_runtime.ingest.formats.debezium import build_debezium_format
from arctic_runtime.ingest.formats.event_format import NULL_IN_OLDER_ROWS, OlderRows, SourceColumn, SourceSchema
from arctic_runtime.ingest.formats.rows import build_rows_format
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.connector import SourceConnection
from arctic_runtime.ingest.transports.files.listing import Folder
from arctic_runtime.ingest.transports.files.log import FileTable
from arctic_runtime.ingest.transports.files.transport import Files
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.model.clone import list_tagged_tables
from arctic_runtime.model.files.layout import KEPT_METADATA
from arctic_runtime.model.forgetting import Forget
from arctic_runtime.model.refs import format_cut
from arctic_runtime.model.sources.ingestion import ChangeSource
from arctic_runtime.model.table import Model, ModelConfig, Retention
from arctic_runtime.operations.changing import RESUME
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.operations.refreshing import perform_refresh
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.forget.forgetting import Forgetting
from arctic_runtime.spark.maintenance.adoption import adopt_table, undo_adoption
from arctic_runtime.spark.maintenance.cloning import clone_model, note_use, reset_model
from arctic_runtime.spark.maintenance.compaction import compact_table, split_table
from arctic_runtime.spark.maintenance.expiry import expire_landing, expire_versions, find_orphan_files
from arctic_runtime.spark.maintenance.resync import request_resync
from arctic_runtime.spark.maintenance.savepoint import drop_savepoint, make_savepoint
from arctic_runtime.spark.refresh.overwrite import overwrite_with_source, restore_version
from arctic_runtime.spark.refresh.run import Refresh
from tests.crash.swaps import SwappedBranch
from tests.spark.replay import ORDERS, Part, Replay, event, ingest, source_of
from tests.spark.warehouse import Rows, Warehouse

Act = Callable[[Warehouse], object]
Models = Callable[[Warehouse], tuple["Model", ...]]

ATTEMPT = ("commit.branch", "commit.append", "commit.publish", "commit.drop_branch")
STATE = "id int, region string, v int"
EVENTS = "id int, v string, op string, lsn bigint"
DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Scenario:
    """What is `build` once, what `act` does to it, the names of effects that this reaches, and who reads tables."""

    effects: tuple[str, ...]
    build: Act
    act: Act
    models: Models = lambda lake: ()
    tables: tuple[str, ...] = ()
    between: tuple[Rows, ...] = ()
    """Rows that readers may see on the way from the tables before to those after."""


def later(days: int = 2) -> datetime.datetime:
    """A time at which branches are abandoned and versions are old."""
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)


# Models


def state_model(lake: Warehouse, columns: str = "id, region, v", **config: Any) -> Model:
    declared = {"primary_key": "id", "compaction": "off", "on_schema_change": "sync_all_columns", **config}
    return lake.model("m", f"select {columns} from {{s}}", **declared)


def event_model(lake: Warehouse, **config: Any) -> Model:
    declared = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'"}
    others = {"exclude_columns": ["op", "lsn"], "compaction": "off", "merge": "on_read", **config}
    return lake.model("m", "select id, v, op, lsn from {changes(events)}", **declared, **others)


def load(lake: Warehouse, *changed: tuple[int, str, int]) -> None:
    """Twenty rows in two regions, but for those that changed."""
    rows = {key: (key, "eu" if key % 2 else "us", key) for key in range(20)}
    lake.load("s", list((rows | {row[0]: row for row in changed}).values()), STATE)


def events(lake: Warehouse, *rows: tuple[int, str, str, int]) -> None:
    lake.append("events", rows, EVENTS)


def of(*made: Callable[[Warehouse], Model]) -> Models:
    return lambda lake: tuple(make(lake) for make in made)


def dies_before(name: str, action: Callable[[], object]) -> None:
    """Does something up to an effect, from which on nothing takes place."""
    dead: list[str] = []

    def die(reached: str, effect: Callable[[], Any]) -> Any:
        if reached == name or dead:
            dead.append(reached)
            raise KeyboardInterrupt
        return effect()

    with set_failpoint(die), suppress(KeyboardInterrupt):
        action()
    assert dead, name


# Refreshes


def first_run() -> Scenario:
    def model(lake: Warehouse) -> Model:
        return event_model(lake, sort_key=["v"])

    return Scenario(
        ("changes.create", *ATTEMPT, "base.create", "base.write_order", "view.tag", "view.replace"),
        lambda lake: events(lake, *[(key, f"v{key % 3}", "c", key) for key in range(10)]),
        lambda lake: lake.run(model(lake)),
        of(model),
        ("m",),
    )


def small_base() -> Scenario:
    def build(lake: Warehouse) -> None:
        load(lake)
        lake.run(state_model(lake))
        load(lake, (1, "us", 100), (30, "eu", 1))

    return Scenario(
        (*ATTEMPT, "base.overwrite"), build, lambda lake: lake.run(state_model(lake)), of(state_model), ("m",)
    )


def partitioned_base() -> Scenario:
    def model(lake: Warehouse) -> Model:
        return state_model(lake, partition_by=["region"])

    def build(lake: Warehouse) -> None:
        load(lake)
        lake.run(model(lake))
        load(lake, (1, "us", 100), (2, "us", 7), (30, "eu", 1))

    return Scenario(
        (*ATTEMPT, "base.merge.delete", "base.merge.append"),
        build,
        lambda lake: lake.run(model(lake)),
        of(model),
        ("m",),
    )


def unmerged_changes() -> Scenario:
    def build(lake: Warehouse) -> None:
        events(lake, *[(key, f"v{key % 3}", "c", key) for key in range(40)])
        lake.run(event_model(lake))
        events(lake, (1, "new", "u", 50), (2, "v2", "d", 51))

    return Scenario(
        (*ATTEMPT, "view.replace"), build, lambda lake: lake.run(event_model(lake)), of(event_model), ("m",)
    )


def abandoned_branch() -> Scenario:
    def build(lake: Warehouse) -> None:
        load(lake)
        lake.run(state_model(lake))
        load(lake, (1, "us", 100))
        dies_before("commit.publish", lambda: lake.run(state_model(lake)))
        for v in (200, 300):
            lake.run(state_model(lake))
            load(lake, (1, "us", v))

    return Scenario(
        ("commit.drop_abandoned", "commit.publish", "base.overwrite"),
        build,
        lambda lake: Refresh(
            RefreshPlanner(state_model(lake), lake.reader, now=later()), lambda: lake.spark
        ).run_refresh(),
        of(state_model),
        ("m",),
    )


def other_columns() -> Scenario:
    def wider(lake: Warehouse) -> Model:
        return state_model(lake, "id, v, region, -v as minus")

    def build(lake: Warehouse) -> None:
        load(lake)
        lake.run(state_model(lake, "id, v, region, v as gone"))
        load(lake, (1, "us", 100))

    return Scenario(("schema.evolve", "commit.publish"), build, lambda lake: lake.run(wider(lake)), of(wider))


def edited_query() -> Scenario:
    """An edit and changes of the source at the same time.

    Readers may see the new column without values, since it comes first, and the edit alone, since both have a commit.
    """
    empty_column = [(key, key, None) for key in range(6, 20)]
    edit_alone = [(key, key, 2 * key) for key in range(4, 20)]

    def model(lake: Warehouse) -> Model:
        return lake.model("m", "select id, v, v * 2 as twice from {s} where v > 3", primary_key="id")

    def build(lake: Warehouse) -> None:
        load(lake)
        lake.run(lake.model("m", "select id, v from {s} where v > 5", primary_key="id"))
        load(lake, (1, "us", 100), (30, "eu", 4))

    return Scenario(
        ("schema.evolve", *ATTEMPT, "query.note", "base.overwrite"),
        build,
        lambda lake: lake.run(model(lake)),
        of(model),
        ("m",),
        tuple(sorted(rows, key=repr) for rows in (empty_column, edit_alone)),
    )


def reverted_query() -> Scenario:
    """A table that was restored to a cut no longer waits, and returns to what its query had made before."""
    cut = "build_20261128T083012Z_0a1b"

    def model(lake: Warehouse) -> Model:
        return lake.model("m", "select id, v + 1 as v from {s} where v > 3", primary_key="id")

    def build(lake: Warehouse) -> None:
        former = lake.model("m", "select id, v from {s} where v > 5", primary_key="id")
        load(lake)
        lake.run(former)
        make_savepoint(lake.session_of(former), cut)
        lake.run(model(lake))
        restore_version(lake.session_of(former), cut, cut)

    def act(lake: Warehouse) -> None:
        RESUME.run_operation(OperationContext(lake.reader, lambda: lake.spark, ()), [model(lake)], {})
        lake.run(model(lake))

    return Scenario(("restore.resume", *ATTEMPT, "base.overwrite"), build, act, of(model), ("m",))


def other_relations() -> Scenario:
    """A table that is to be merged on read from now on: a view takes its place."""

    def model(lake: Warehouse) -> Model:
        return state_model(lake, merge="on_read")

    def build(lake: Warehouse) -> None:
        load(lake)
        lake.run(state_model(lake))
        load(lake, (1, "us", 100))

    return Scenario(
        ("relation.drop", "base.create", "view.replace"),
        build,
        lambda lake: lake.run(model(lake), full_refresh=True),
        of(model),
    )


def aggregate_state() -> Scenario:
    sql = "select region, count(*) as n, sum(v) as v from {m} group by region"

    def total(lake: Warehouse) -> Model:
        return lake.model("total", sql, primary_key="region", refresh="strict")

    def act(lake: Warehouse) -> None:
        for model in (state_model(lake), total(lake)):
            lake.run(model)

    def build(lake: Warehouse) -> None:
        load(lake)
        act(lake)
        load(lake, (1, "us", 100), (30, "eu", 1))

    return Scenario(("aggregate_state.write", "commit.append"), build, act, of(state_model, total), ("m", "total"))


def damaged_base() -> Scenario:
    def build(lake: Warehouse) -> None:
        load(lake)
        lake.run(state_model(lake))
        lake.spark.sql(f"insert into {lake.sql_name('m')} select * from {lake.sql_name('m')} where id < 3")

    return Scenario(
        ("repair.mark", "base.create"),
        build,
        lambda lake: lake.run(state_model(lake), full_refresh=True),
        of(state_model),
    )


def every_change_kept() -> Scenario:
    def model(lake: Warehouse) -> Model:
        return event_model(lake, keep="all")

    def build(lake: Warehouse) -> None:
        events(lake, *[(key, f"v{key % 3}", "c", key) for key in range(10)])
        lake.run(event_model(lake))
        events(lake, (1, "w", "u", 20), (1, "x", "u", 21), (2, "w", "d", 22), (2, "y", "c", 23))

    return Scenario(("keep.mark", "commit.append"), build, lambda lake: lake.run(model(lake)), of(model))


def started_over() -> Scenario:
    def build(lake: Warehouse) -> None:
        events(lake, *[(key, f"v{key % 3}", "c", key) for key in range(10)])
        lake.run(event_model(lake))

    def act(lake: Warehouse) -> None:
        reset_model(lake.session_of(event_model(lake)))
        lake.run(event_model(lake))

    return Scenario(("reset.drop", "changes.create"), build, act, of(event_model))


def current_rows() -> Scenario:
    """A view of the current versions comes, or takes another name, and so does a view of the change rows."""

    def model(lake: Warehouse, view: bool | str) -> Model:
        feed = view if view is True else f"{view}_feed"
        return event_model(lake, history="scd2", merge="on_write", current_view=view, changes_view=feed)

    def build(lake: Warehouse) -> None:
        events(lake, *[(key, f"v{key % 3}", "c", key) for key in range(10)])
        lake.run(model(lake, view="former"))
        events(lake, (1, "w", "u", 20), (2, "w", "d", 21))

    def now(lake: Warehouse) -> Model:
        return model(lake, view=True)

    return Scenario(
        tuple(f"{key}.{effect}" for key in ("current_view", "changes_view") for effect in ("drop", "mark", "replace")),
        build,
        lambda lake: lake.run(now(lake)),
        of(now),
        ("m",),
    )


def declared_rows() -> Scenario:
    """Rows of an extract take the place of what the events up to then have made."""

    def build(lake: Warehouse) -> None:
        unmerged_changes().build(lake)
        lake.run(event_model(lake))
        lake.load("extract", [(1, "declared"), (100, "new")], "id int, v string")

    def act(lake: Warehouse) -> None:
        overwrite_with_source(lake.refresh_of(event_model(lake)), lake.table("extract"), "60")

    return Scenario((*ATTEMPT, "view.replace"), build, act, of(event_model), ("m",))


def restored_version() -> Scenario:
    def build(lake: Warehouse) -> None:
        small_base().build(lake)
        make_savepoint(lake.session_of(state_model(lake)), "good")
        lake.run(state_model(lake))

    return Scenario(
        (*ATTEMPT, "base.overwrite"),
        build,
        lambda lake: restore_version(lake.session_of(state_model(lake)), "good"),
        of(state_model),
        ("m",),
    )


# Maintenance


def small_files() -> Scenario:
    def model(lake: Warehouse) -> Model:
        return state_model(lake, partition_by=["region"])

    def build(lake: Warehouse) -> None:
        partitioned_base().build(lake)
        lake.run(model(lake))

    return Scenario(
        ("compaction.rewrite", "compaction.stamp", *ATTEMPT[::2]),
        build,
        lambda lake: compact_table(lake.session_of(model(lake)), "full"),
        of(model),
        ("m",),
    )


def large_buckets() -> Scenario:
    def model(lake: Warehouse) -> Model:
        return lake.model("m", "select id, v from {s}", primary_key="id", nodes=2, node_bytes=2500, compaction="off")

    def build(lake: Warehouse) -> None:
        lake.load("s", [(key, f"{key * 7919 % 1009} of many") for key in range(1000)], "id int, v string")
        lake.run(model(lake))

    return Scenario(
        ("compaction.partition_spec", "compaction.rewrite", "compaction.stamp"),
        build,
        lambda lake: split_table(lake.session_of(model(lake))),
        of(model),
        ("m",),
    )


def base_rewrite() -> Scenario:
    """All buckets of a base are written anew in two parts, each in a commit of its own."""

    def model(lake: Warehouse) -> Model:
        return event_model(lake, nodes=4)

    def build(lake: Warehouse) -> None:
        unmerged_changes().build(lake)
        lake.run(model(lake))
        events(lake, *[(key, "newer", "u", 100 + key) for key in range(20, 26)])
        lake.run(model(lake))

    def act(lake: Warehouse) -> None:
        in_parts = lake.under(base_rewrite={"part_bytes": 1, "parts": 2})
        compact_table(in_parts.session_of(model(lake)), "full")

    return Scenario(
        ("base.rewrite.branch", "base.rewrite.write", "view.tag", "view.replace"),
        build,
        act,
        of(model),
        ("m",),
    )


def old_versions() -> Scenario:
    """Versions, replaced change rows and tags of snapshots that the view pinned before, all of them old by now."""

    def model(lake: Warehouse) -> Model:
        return event_model(lake, retention={"changes": "1d", "versions": "1d"})

    def build(lake: Warehouse) -> None:
        events(lake, *[(key, "first", "c", key) for key in range(4)])
        lake.run(model(lake))
        for lsn in (10, 20, 30):
            events(lake, *[(key, f"at {lsn}", "u", lsn) for key in range(3)])
            lake.run(model(lake))
        names = ", ".join(f"'{key}'" for key in KEPT_METADATA)
        lake.spark.sql(f"alter table {lake.sql_name('m__base')} unset tblproperties ({names})")

    def act(lake: Warehouse) -> None:
        expire_versions(lake.session_of(model(lake), now=later()), [])

    return Scenario(
        (
            "expiry.metadata_files",
            "changelog_compaction.mark",
            "changelog_compaction.delete",
            "expiry.ages",
            "expiry.drop_tag",
            "expiry.snapshots",
        ),
        build,
        act,
        of(model),
        ("m",),
    )


def read_by_another_project() -> Scenario:
    """A model of another project reads a table and notes itself there; then old versions of the table expire."""

    def reading(lake: Warehouse) -> Model:
        model = lake.model("d", "select id, v from {m}", primary_key="id")
        return replace(model, foreign_tables=frozenset({lake.table("m")}))

    def build(lake: Warehouse) -> None:
        for v in (1, 2):
            load(lake, (1, "us", v))
            lake.run(state_model(lake))

    def act(lake: Warehouse) -> None:
        planner = RefreshPlanner(reading(lake), lake.reader)
        done = perform_refresh(planner, planner.plan_refresh(), lambda: lake.spark, lambda _: ())
        if done.failures:
            raise CatalogError("\n".join(done.failures.values()))
        expire_versions(lake.session_of(state_model(lake), now=later()), [])

    return Scenario(("reader.note",), build, act, of(state_model, reading), ("m", "d"))


def landing_expiry() -> Scenario:
    """Rows of a table of events that its reader has read."""

    def build(lake: Warehouse) -> None:
        events(lake, (1, "a", "u", 1))
        lake.run(event_model(lake))

    def act(lake: Warehouse) -> None:
        config = ModelConfig((), retention=Retention(changes_seconds=DAY_SECONDS))
        landing = Model(lake.table("events"), "", config, is_landing=True)
        expire_landing(landing, [event_model(lake)], lake.reader, lambda: lake.spark, later())
        assert lake.spark.table(lake.sql_name("events")).count() == 0
        lake.run(event_model(lake))

    return Scenario(("landing.mark", "landing.delete"), build, act, of(event_model), ("m",))


def orphans() -> Scenario:
    def build(lake: Warehouse) -> None:
        unmerged_changes().build(lake)
        lake.run(event_model(lake))
        folder = lake.reader.load_table(lake.namespace, "m__changes").location().removeprefix("file:")
        file = Path(folder) / "data" / "orphan.parquet"
        file.write_bytes(b"x")
        os.utime(file, (0, 0))

    def act(lake: Warehouse) -> None:
        find_orphan_files(lake.session_of(event_model(lake)), DAY_SECONDS, remove=True)

    return Scenario(("expiry.orphans",), build, act, of(event_model), ("m",))


def savepoint() -> Scenario:
    def build(lake: Warehouse) -> None:
        load(lake)
        lake.run(state_model(lake))

    def act(lake: Warehouse) -> None:
        make_savepoint(lake.session_of(state_model(lake)), "good")
        assert [point.name for point in observe_savepoints(lake.reader, state_model(lake))] == ["good"]
        drop_savepoint(lake.session_of(state_model(lake)), "good")
        assert observe_savepoints(lake.reader, state_model(lake)) == ()

    return Scenario(("savepoint.tag", "savepoint.drop_tag"), build, act, of(state_model), ("m",))


# Ingestion


def ingestion() -> Scenario:
    """Events of one table and a dead letter."""
    texts = [event("c", None, {"id": number, "item": "a", "n": number}) for number in range(3)]

    def act(lake: Warehouse) -> None:
        lake = lake.under(ingest={"lease_seconds": 0})
        source = replace(source_of(lake, "orders"), max_dead_letters=None)
        ingest(lake, source, Replay([[Part("public.orders", ORDERS, [*texts, "{"])]]))
        assert lake.spark.table(str(source.dead_letter_table)).count() == 1

    return Scenario(
        ("ingest.create_dead_letters", "ingest.lease", "ingest.append_dead_letters", "ingest.advance"),
        lambda lake: None,
        act,
        tables=("orders",),
    )


class Broken(Replay):
    """A replay whose source breaks at the end of its log."""

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        yield from super().read_batches(until_drained)
        raise SourceError("the source is away")


def failing_ingestion() -> Scenario:
    """Ingestion that ends with an error after its first batch."""
    first = Part("public.orders", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 1})])

    def act(lake: Warehouse) -> None:
        lake = lake.under(ingest={"lease_seconds": 0})
        with suppress(SourceError):
            ingest(lake, source_of(lake, "orders"), Broken([[first]]))

    return Scenario(("ingest.fail",), lambda lake: None, act, tables=("orders",))


def requested_resync() -> Scenario:
    """Somebody asks for a table to be loaded anew."""
    rows = Part("public.orders", ORDERS, [event("c", None, {"id": 1, "item": "a", "n": 1})])

    def build(lake: Warehouse) -> None:
        ingest(lake, source_of(lake, "orders"), Replay([[rows]]))

    def act(lake: Warehouse) -> None:
        source = source_of(lake, "orders")
        model = source.tables[0].to_model(("id",))
        asked = replace(model, source=ChangeSource(source.name, source.dead_letter_table, can_load=True))
        assert request_resync(lake.session_of(asked)) == "shop"

    return Scenario(("ingest.request",), build, act, tables=("orders",))


def dead_letters() -> Scenario:
    """A dead letter of an earlier version and one that fits now, after one that still does not."""
    texts = [event("c", None, {"id": number, "item": "a", "n": 3_000_000_000}) for number in range(2)]

    def source(lake: Warehouse, n: str) -> IngestSource:
        source = replace(source_of(lake, "orders", primary_key=["id"]), max_dead_letters=None)
        columns = {"id": "bigint", "item": "string", "n": n}
        return replace(source, tables=(replace(source.tables[0], columns=columns),))

    def build(lake: Warehouse) -> None:
        ingest(lake, source(lake, "int"), Replay([[Part("public.orders", None, [*texts, "{"])]]))
        lake.spark.sql(f"alter table {source(lake, 'int').dead_letter_table} drop column schema")

    def act(lake: Warehouse) -> None:
        lake = lake.under(ingest={"lease_seconds": 0})
        mended, session = source(lake, "bigint"), lake.environment.new_session
        list(replay_dead_letters(mended, build_debezium_format(), lake.reader, session))
        assert lake.spark.table(lake.sql_name("orders")).count() == 2
        assert lake.spark.table(str(mended.dead_letter_table)).count() == 1

    return Scenario(("ingest.widen_dead_letters", "ingest.rewrite_dead_letters"), build, act, tables=("orders",))


def another_snapshot() -> Scenario:
    """A table whose snapshot was interrupted gets what differs from a whole one."""

    def read(*ids: int) -> list[Part]:
        return [Part("public.orders", ORDERS, [event("r", None, {"id": key, "item": "a", "n": key}) for key in ids])]

    def build(lake: Warehouse) -> None:
        ingest(lake, source_of(lake, "orders"), Replay([read(1, 2, 3)], snapshot=3))

    def act(lake: Warehouse) -> None:
        lake = lake.under(ingest={"lease_seconds": 0})
        ingest(lake, source_of(lake, "orders"), Replay([read(2), read(4), read(5)], snapshot=3))
        rows = lake.spark.table(lake.sql_name("orders")).select("id").collect()
        assert sorted(row.id for row in rows) == [2, 4, 5]

    return Scenario(("ingest.create_stage", "ingest.stage", "ingest.drop_stage"), build, act, tables=("orders",))


def ingestion_without_keys() -> Scenario:
    """A table without a key gets more rows and another layout, and another one its first rows."""

    def batch(name: str, *ids: int) -> Part:
        texts = [event("c", None, {"id": key, "item": "a", "n": key}) for key in ids]
        return Part(f"public.{name}", replace(ORDERS, key=()), texts)

    def build(lake: Warehouse) -> None:
        ingest(lake, source_of(lake, "log", primary_key=None), Replay([[batch("log", 1, 1)]]))

    def act(lake: Warehouse) -> None:
        lake = lake.under(ingest={"lease_seconds": 0})
        source = source_of(lake, "log", "other", primary_key=None, sort_key=["n"], partition_by=["bucket(2, id)"])
        ingest(lake, source, Replay([[batch("log", 1, 1)], [batch("log", 2, 2), batch("other", 3)]]))
        assert lake.spark.table(lake.sql_name("other")).count() == 1

    return Scenario(("ingest.create_table", "ingest.layout", "ingest.append"), build, act, tables=("log",))


def renamed_column() -> Scenario:
    """A table whose source renames a column, and adds one with a default."""
    known = NULL_IN_OLDER_ROWS
    key = SourceColumn("id", "bigint", number=1, older_rows=known)
    before = SourceSchema((key, SourceColumn("a", "int", number=2, older_rows=known)), ("id",))
    added = SourceColumn("n", "int", number=3, older_rows=OlderRows(True, "5"))
    after = SourceSchema((key, SourceColumn("b", "int", number=2, older_rows=known), added), ("id",))
    first = [Part("public.orders", before, [event("c", None, {"id": number, "a": number}) for number in (1, 2)])]
    later = [Part("public.orders", after, [event("u", None, {"id": 2, "b": 3, "n": 6})])]

    def act(lake: Warehouse) -> None:
        lake = lake.under(ingest={"lease_seconds": 0})
        ingest(lake, source_of(lake, "orders"), Replay([first, later]))
        rows = {tuple(row) for row in lake.spark.table(lake.sql_name("orders")).select("id", "b", "n").collect()}
        assert rows == {(1, 1, 5), (2, 3, 6)}

    return Scenario(
        ("ingest.columns", "schema.evolve"), lambda lake: ingest(lake, source_of(lake, "orders"), Replay([first])), act
    )


def another_snapshot_without_key() -> Scenario:
    def read(*ids: int) -> list[Part]:
        texts = [event("r", None, {"id": key, "item": "a", "n": key}) for key in ids]
        return [Part("public.log", replace(ORDERS, key=()), texts)]

    def build(lake: Warehouse) -> None:
        ingest(lake, source_of(lake, "log", primary_key=None), Replay([read(1, 2, 3)], snapshot=2))

    def act(lake: Warehouse) -> None:
        lake = lake.under(ingest={"lease_seconds": 0})
        ingest(lake, source_of(lake, "log", primary_key=None), Replay([read(2), read(4, 4)], snapshot=2))

    return Scenario(("ingest.replace",), build, act, tables=("log",))


def ingestion_of_files() -> Scenario:
    """Events in three files, whose log is rewritten at once."""

    def folder(lake: Warehouse) -> Path:
        warehouse = Path(lake.environment.profile.catalog_properties["warehouse"])
        made = warehouse.parent / f"{lake.namespace}_files"
        made.mkdir(exist_ok=True)
        for number in range(3):
            file = made / f"{number}.json"
            if not file.exists():
                file.write_text(json.dumps({"id": number, "v": "a"}))
        return made

    def act(lake: Warehouse) -> None:
        columns = {"id": "bigint", "v": "string"}
        table = IngestedTable("orders", "orders", lake.table("orders"), {"primary_key": ["id"]}, columns)
        source = IngestSource("shop", "files", {}, (table,), lake.table("shop__dead_letters"))
        often = lake.under(transports={"file_log_snapshots": 0}, ingest={"lease_seconds": 0})
        spark, limits = lake.environment.new_session, often.reader.thresholds.transports
        log = FileTable(lake.table("shop__files"), often.reader, spark)
        files = Files(Folder(str(folder(lake))), {"orders": "*"}, log, spark, limits)
        Ingestion(source, SourceConnection(files, build_rows_format()), often.reader, spark).run(once=True)
        assert lake.spark.table(lake.sql_name("orders")).count() == 3

    log = ("ingest.create_file_log", "ingest.append_file_log", "ingest.rewrite_file_log")
    return Scenario(log, lambda lake: None, act, tables=("orders",))


# Forgetting


def forgotten_rows() -> Scenario:
    """Rows of a table are forgotten, of a sum that follows it and of a maximum that can't take them back.

    A file that an attempt left has one of them.
    """
    sql = "select region, count(*) as n, sum(v) as v from {m} group by region"

    def root(lake: Warehouse) -> Model:
        declared: dict[str, Any] = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "compaction": "off"}
        query = "select id, region, v, lsn from {changes(places)}"
        return lake.model("m", query, **declared, partition_by=["region"])

    def total(lake: Warehouse) -> Model:
        return lake.model("total", sql, primary_key="region", refresh="strict")

    def highest(lake: Warehouse) -> Model:
        declared: dict[str, Any] = {"primary_key": "region", "input": "changes", "sequence_by": "lsn"}
        query = "select region, v as high, lsn from {changes(m)}"
        return lake.model("highest", query, **declared, merge_columns={"high": "max"}, compaction="off")

    def models(lake: Warehouse) -> tuple[Model, ...]:
        return root(lake), total(lake), highest(lake)

    def build(lake: Warehouse) -> None:
        columns = "id int, region string, v int, lsn bigint"
        for place, v in enumerate((1, 100)):
            rows = [(key, "eu" if key % 2 else "us", v * key, place) for key in range(20)]
            lake.append("places", rows[:: place + 1], columns)
            for model in models(lake):
                lake.run(model)

    def act(lake: Warehouse) -> None:
        if "m__forget" not in lake.reader.list_relations(lake.namespace):
            copy_a_file(lake, "m__changes")
        request = Forget(keys=("18", "3"))
        certificate = Forgetting(root(lake), models(lake), lake.reader, lambda: lake.spark, request).run_forget()
        assert certificate.is_clean, certificate

    names = ("keys", "mark", "delete", "rewrite", "record", "manifests", "remove_files", "drop")
    return Scenario(tuple(f"forget.{name}" for name in names), build, act, models, ("m", "total", "highest"))


def copy_a_file(lake: Warehouse, table: str) -> None:
    """What an attempt leaves that died before its commit: a file of no snapshot."""
    folder = Path(lake.reader.load_table(lake.namespace, table).location().removeprefix("file:")) / "data"
    paths = sorted(folder.rglob("*.parquet"))
    if paths:
        shutil.copy2(paths[0], folder / f"stray-{uuid.uuid4().hex}.parquet")


def forgotten_letters() -> Scenario:
    """An ingested row is forgotten, of which a dead letter tells as well."""
    texts = [event("c", None, {"id": number, "item": "a", "n": number}) for number in range(3)]
    dead = event("u", None, {"id": 1, "item": "a", "n": 3_000_000_000})

    def source(lake: Warehouse) -> IngestSource:
        return replace(source_of(lake, "orders"), max_dead_letters=None)

    def build(lake: Warehouse) -> None:
        ingest(lake, source(lake), Replay([[Part("public.orders", ORDERS, [*texts, dead])]]))

    def act(lake: Warehouse) -> None:
        ingested = source(lake)
        table = replace(ingested.tables[0].to_model(("id",)), source=ChangeSource("shop", ingested.dead_letter_table))
        request = Forget(keys=("1",))
        certificate = Forgetting(table, (table,), lake.reader, lambda: lake.spark, request).run_forget()
        assert certificate.is_clean, certificate
        assert lake.spark.table(str(ingested.dead_letter_table)).count() == 0

    return Scenario(("forget.dead_letters", "forget.delete"), build, act, tables=("orders",))


# Adoption


def build_plain_table(lake: Warehouse) -> None:
    """A table of other writers, with a stale row and one that its query does not have; and the rows of that query."""
    load(lake, (3, "eu", 300))
    rows = [(key, "eu" if key % 2 else "us", key) for key in range(21)]
    lake.frame(rows, STATE).createOrReplaceTempView("plain_rows")
    lake.spark.sql(f"create table {lake.sql_name('m')} using iceberg as select * from plain_rows")


def adopted_model(lake: Warehouse) -> Model:
    return state_model(lake, sort_key=["v"])


def adopted_table() -> Scenario:
    """A table of other writers becomes that of a model, and a run publishes what differs from its query."""

    def act(lake: Warehouse) -> None:
        adopt_table(lake.session_of(adopted_model(lake)))
        lake.run(adopted_model(lake))

    names = tuple(f"base.adopt.{name}" for name in ("tag", "record", "partition", "properties"))
    effects = ("changes.create", *names, "base.write_order", *ATTEMPT, "base.overwrite")
    return Scenario(effects, build_plain_table, act, of(adopted_model), ("m",))


def released_table() -> Scenario:
    """An adopted table is given back to its writers."""

    def build(lake: Warehouse) -> None:
        build_plain_table(lake)
        adopt_table(lake.session_of(adopted_model(lake)))
        lake.run(adopted_model(lake))

    def act(lake: Warehouse) -> None:
        if lake.state(adopted_model(lake)).changes is not None:
            undo_adoption(lake.session_of(adopted_model(lake)))

    names = tuple(f"base.release.{name}" for name in ("schema", "properties", "rollback", "tag"))
    return Scenario((*names, "base.adopt.partition", "reset.drop"), build, act, tables=("m",))


def forgotten_adopted_rows() -> Scenario:
    """A row that an adopted table had from the beginning is forgotten."""

    def build(lake: Warehouse) -> None:
        build_plain_table(lake)
        adopt_table(lake.session_of(adopted_model(lake)))
        lake.run(adopted_model(lake))

    def act(lake: Warehouse) -> None:
        model = adopted_model(lake)
        certificate = Forgetting(model, (model,), lake.reader, lambda: lake.spark, Forget(keys=("20",))).run_forget()
        assert certificate.is_clean, certificate

    return Scenario(("base.adopt.move",), build, act, of(adopted_model), ("m",))


# Clones


def clone_model_of(lake: Warehouse) -> Model:
    return replace(state_model(lake, merge="on_read"), table=lake.table("c"))


def make_clone(lake: Warehouse) -> None:
    request = CloneRequest(lake.table("m"), round(1000 * time.time()), "stamp")
    clone_model(lake.session_of(clone_model_of(lake)), request, replaces=True)


def build_unmerged(lake: Warehouse) -> None:
    """A table with change rows that are not merged yet."""
    for changed in ((3, "eu", 3), (3, "eu", 30)):
        load(lake, changed)
        lake.run(state_model(lake, merge="on_read"))


def cloned_model() -> Scenario:
    """A model becomes a clone, and its first run has nothing to do."""

    def act(lake: Warehouse) -> None:
        make_clone(lake)
        assert lake.run(clone_model_of(lake)).mode == "unchanged"

    effects = ("clone.tag", "clone.write", "clone.register", "view.tag", "view.replace")
    models = of(lambda lake: state_model(lake, merge="on_read"), clone_model_of)
    return Scenario(effects, build_unmerged, act, models, ("m", "c"))


def dropped_clone() -> Scenario:
    """A clone is in use for a while, then not any more, so that upkeep of its origin drops it."""

    def build(lake: Warehouse) -> None:
        build_unmerged(lake)
        make_clone(lake)

    def act(lake: Warehouse) -> None:
        clone, model = clone_model_of(lake), state_model(lake, merge="on_read")
        if observe_clone(lake.reader, clone.table) is not None:
            note_use(lake.session_of(clone, now=later(10)), lake.state(clone))
            expire_versions(lake.session_of(model, now=later(20)), [])
            assert observe_clone(lake.reader, clone.table) is not None
        expire_versions(lake.session_of(model, now=later(40)), [])
        assert not observe_clone_tags(lake.reader, list_tagged_tables(model.table))

    effects = ("clone.note_use", "clone.drop_tag", "clone.remove_files", "reset.drop")
    return Scenario(effects, build, act, of(lambda lake: state_model(lake, merge="on_read")), ("m",))


def old_clone_versions() -> Scenario:
    """Old versions of a clone expire, and files of its own that no version has any more are deleted."""

    def build(lake: Warehouse) -> None:
        build_unmerged(lake)
        make_clone(lake)
        for v in (40, 41):
            load(lake, (4, "us", v))
            lake.run(clone_model_of(lake))
        compact_table(lake.session_of(clone_model_of(lake)), "full")

    def act(lake: Warehouse) -> None:
        clone = clone_model_of(lake)
        expire_versions(lake.session_of(clone, now=later(10)), [])
        before = time.time() - 10 * DAY_SECONDS
        warehouse = Path(lake.environment.profile.catalog_properties["warehouse"])
        for file in (warehouse / lake.namespace).rglob("*.*"):
            os.utime(file, (before, before))
        find_orphan_files(lake.session_of(clone), 3 * DAY_SECONDS, remove=True)

    models = of(lambda lake: state_model(lake, merge="on_read"), clone_model_of)
    return Scenario(("clone.expire", "clone.remove_files"), build, act, models, ("m", "c"))


def forgotten_cloned_rows() -> Scenario:
    """A row is forgotten that a clone has too, also in files of its own."""

    def build(lake: Warehouse) -> None:
        build_unmerged(lake)
        make_clone(lake)
        load(lake, (4, "us", 40))
        lake.run(clone_model_of(lake))
        compact_table(lake.session_of(clone_model_of(lake)), "full")
        lake.load("s", [(key, "eu" if key % 2 else "us", key) for key in range(20) if key != 3], STATE)

    def act(lake: Warehouse) -> None:
        model, request = state_model(lake, merge="on_read"), Forget(keys=("3",), drop_clones=True)
        certificate = Forgetting(model, (model,), lake.reader, lambda: lake.spark, request).run_forget()
        assert certificate.is_clean, certificate
        assert observe_clone(lake.reader, lake.table("c")) is None
        assert not observe_clone_tags(lake.reader, list_tagged_tables(model.table))
        warehouse = Path(lake.environment.profile.catalog_properties["warehouse"])
        assert not list((warehouse / lake.namespace).glob("c*/**/*.parquet"))

    effects = ("clone.remove_files", "reset.drop", "clone.drop_tag")
    return Scenario(effects, build, act, of(lambda lake: state_model(lake, merge="on_read")), ("m",))


# What the adapter does


def increment_of_an_empty_table() -> Scenario:
    def build(lake: Warehouse) -> None:
        lake.spark.sql(f"create table {lake.sql_name('t')} (id int) using iceberg")

    def act(lake: Warehouse) -> None:
        from dbt.adapters.arctic.materialize.increments import branch_name, build_attempt, publish_in_one_step

        branch = branch_name(uuid.uuid4().hex[:12])
        name = ".".join([lake.sql_name("t"), f"branch_{branch}"])
        rows = lake.frame([(1,)], "id int")
        attempt = build_attempt(lake.spark, lake.reader, branch, lake.reader.thresholds)
        publish_in_one_step(attempt, lake.table("t"), partial(rows.writeTo(name).overwrite, F.lit(True)))

    own = ("incremental.first_snapshot", "incremental.mark_branch")
    return Scenario((*own, *ATTEMPT[::2], ATTEMPT[3]), build, act, tables=("t",))


def service_lease() -> Scenario:
    """A service takes its lease, stores samples, pauses a table, and renews the lease until old snapshots expire."""

    def act(lake: Warehouse) -> None:
        table = ServiceTable(lake.namespace, lake.reader)
        table.ensure()
        lease = Lease(table, LeaseTimes(60, 20, 3), "elsewhere:1:x")
        at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
        for _ in range(2):
            sample = TableSample(at, "lake.dwd.t", 1, 0.0, "fresh")
            TableSamples(table.table, lake.reader).replace_days([sample], at)
        for _ in range(102):
            lease.take_lease()
        table.change_paused(lambda paused: paused.pause(["t"], upkeep_only=False))

    return Scenario(("service.create_table", "service.commit", "service.expire"), lambda lake: None, act)


def debug() -> Scenario:
    """`dbt debug` in a schema that is not there yet."""
    tried = ("debug.create", "debug.drop", "probe.write", "probe.drop")
    names = ("namespace.create", *tried, "namespace.drop", "debug.remove_folders")
    return Scenario(names, lambda lake: None, dbt_debug)


def dbt_debug(lake: Warehouse) -> None:
    from dbt.adapters.factory import reset_adapters
    from dbt.cli.main import dbtRunner

    profile = lake.environment.profile
    warehouse = Path(profile.catalog_properties["warehouse"])
    folder = warehouse.parent / "debugged"
    folder.mkdir(exist_ok=True)
    target = {"type": "arctic", "warehouse": str(warehouse), "schema": f"{lake.namespace}_new", "threads": 1}
    target |= {"method": profile.method, "server_side_parameters": dict(profile.settings)}
    profiles = {"debugged": {"target": "dev", "outputs": {"dev": target}}}
    (folder / "profiles.yml").write_text(json.dumps(profiles))
    (folder / "dbt_project.yml").write_text(json.dumps({"name": "debugged", "profile": "debugged", "version": "1.0"}))
    where = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
    outcome = dbtRunner().invoke(["--quiet", "--log-path", str(folder), "debug", *where])
    reset_adapters()
    if not outcome.success:
        raise CatalogError(f"dbt debug failed: {outcome.exception}")


# Builds


def load_numbers(lake: Warehouse, **contents: int) -> None:
    """Tables with one row each."""
    for name, v in contents.items():
        lake.load(name, [(1, "eu", v)], STATE)


def published_build() -> Scenario:
    """A build changes a table, creates one and leaves one as it is; all are published in one transaction."""

    def act(lake: Warehouse) -> None:
        publish_build(lake, CatalogBranch(lake.environment.profile, build_file(lake)))

    names = ("begin", "copy_metadata", "write_metadata", "publish", "tag", "remove_copies", "remove")
    effects = tuple(f"build.{name}" for name in names)
    return Scenario(effects, lambda lake: load_numbers(lake, a=1, b=1), act, tables=("a", "b", "d"))


def build_in_steps() -> Scenario:
    """A build changes a table, creates one and drops one, in a catalog that changes one table at a time."""

    def act(lake: Warehouse) -> None:
        branch = SwappedBranch(lake.environment.profile, build_file(lake))
        scope = BranchScope([lake.table(name) for name in "abcd"], [lake.namespace])
        branch.complete_publications(scope)
        publish_build(lake, branch, scope, ("c",))
        assert not list(list_records(branch.origin, scope.schemas))

    names = ("write_record", "note_record", "publish", "drop", "remove_record")
    effects = tuple(f"build.{name}" for name in names)
    return Scenario(effects, lambda lake: load_numbers(lake, a=1, b=1, c=1), act, tables=("a", "b", "d"))


def build_file(lake: Warehouse) -> Path:
    warehouse = Path(lake.environment.profile.catalog_properties["warehouse"])
    return warehouse.parent / "builds" / f"{uuid.uuid4().hex}.db"


def publish_build(
    lake: Warehouse, branch: CatalogBranch, scope: BranchScope | None = None, dropped: tuple[str, ...] = ()
) -> None:
    cut = format_cut(round(1000 * time.time()), os.urandom(2).hex())
    branch.begin_branch(scope)
    branch.prepare_tables([lake.table("a")])
    load_numbers(replace(lake, reader=branch.reader), a=2, d=2)
    for name in dropped:
        if branch.reader.catalog.table_exists((lake.namespace, name)):
            branch.reader.catalog.drop_table((lake.namespace, name))
    branch.publish_changes(branch.complete_tables(branch.list_changes(), cut))
    branch.tag_tables([lake.table("b")], cut)
    branch.remove_branch()


SCENARIOS: Mapping[str, Scenario] = {
    make.__name__: make()
    for make in (
        first_run,
        small_base,
        partitioned_base,
        unmerged_changes,
        abandoned_branch,
        other_columns,
        edited_query,
        reverted_query,
        other_relations,
        aggregate_state,
        damaged_base,
        every_change_kept,
        current_rows,
        started_over,
        declared_rows,
        restored_version,
        small_files,
        large_buckets,
        base_rewrite,
        old_versions,
        orphans,
        read_by_another_project,
        landing_expiry,
        savepoint,
        ingestion,
        failing_ingestion,
        requested_resync,
        dead_letters,
        another_snapshot,
        ingestion_without_keys,
        renamed_column,
        another_snapshot_without_key,
        ingestion_of_files,
        forgotten_rows,
        forgotten_letters,
        adopted_table,
        released_table,
        forgotten_adopted_rows,
        cloned_model,
        dropped_clone,
        old_clone_versions,
        forgotten_cloned_rows,
        increment_of_an_empty_table,
        service_lease,
        debug,
        published_build,
        build_in_steps,
    )
}

REACHED: Mapping[str, str] = {
    name: key for key, scenario in reversed(SCENARIOS.items()) for name in reversed(scenario.effects)
}
"""The name of an effect → the first scenario that reaches it."""


def namespace_of(key: str) -> str:
    """Where a scenario's tables are."""
    return f"crash_{key}"


def rounds() -> tuple[tuple[tuple[str, str], ...], ...]:
    """All names with a scenario each, and each scenario at most once in a round: so many processes have to die."""
    reached: dict[str, list[str]] = {key: [] for key in SCENARIOS}
    ways = {name: [key for key, one in SCENARIOS.items() if name in one.effects] for name in REACHED}
    for name in sorted(ways, key=lambda name: len(ways[name])):
        least = min(ways[name], key=lambda key: len(reached[key]))
        reached[least].append(name)
    most = max(map(len, reached.values()))
    return tuple(
        tuple((key, names[place]) for key, names in reached.items() if place < len(names)) for place in range(most)
    )
