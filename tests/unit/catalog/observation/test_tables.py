"""Observing: what tables say of themselves becomes one state, and nothing of others is taken for ours."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, NestedField, StringType

from arctic_runtime.catalog.observation.tables import observe_model, observe_readable, observe_source
from arctic_runtime.catalog.observation.views import observe_reader_view, read_view_sql
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import ConflictingRelation, TableState, ViewState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.refresh.reconcile import plan_branch_cleanup, plan_reconciliation
from arctic_runtime.thresholds import Thresholds

COLUMNS = (Column("id", "bigint"), Column("note", "string"))
CHANGE_COLUMNS = (
    *COLUMNS,
    Column("_action", "string"),
    Column("_seq", "int"),
    Column("_before", "struct<note:string>"),
)


def a_model(name: str, merge: Any = "on_write") -> Model:
    return Model(TableName("lake", "dwd", name), "select 1", ModelConfig(("id",), hash_key="id", merge=merge))


ODS, DWD = a_model("ods"), a_model("dwd", "on_read")


def test_where_nothing_was_built_there_is_no_state(shop) -> None:
    warehouse, _ = shop
    assert observe_model(warehouse.reader, a_model("nothing")) == TableState()
    assert observe_model(warehouse.reader, a_model("nothing", "on_read")) == TableState()


def test_a_change_table_is_its_commits_oldest_first_with_what_they_say(shop) -> None:
    warehouse, made = shop
    changes = observe_model(warehouse.reader, DWD).changes
    assert changes is not None
    assert [commit.version for commit in changes.commits] == made["dwd"]
    assert changes.head == changes.newest == made["dwd"][3]
    assert [commit.rows for commit in changes.commits] == [3, 1, 2, 1]
    assert [commit.parent for commit in changes.commits] == [None, *(v.snapshot for v in made["dwd"][:3])]
    assert {commit.operation for commit in changes.commits} == {"append"}
    assert all(commit.bytes > 0 and commit.at_ms > 0 for commit in changes.commits)
    assert [commit.summary["arctic.mode"] for commit in changes.commits] == ["create", "full", "full", "full"]
    assert changes.columns == CHANGE_COLUMNS
    assert changes.properties["arctic.primary-key"] == "id"


def test_a_commit_without_rows_is_a_version_but_never_the_newest_to_merge(shop) -> None:
    warehouse, made = shop
    changes = observe_model(warehouse.reader, ODS).changes
    assert changes is not None
    assert changes.commits[0].rows == 0
    assert [commit.version for commit in changes.list_commits_after(None)] == made["ods"][1:]


def test_branches_are_seen_with_their_lineage_and_tags_are_no_branches(shop) -> None:
    warehouse, made = shop
    state = observe_model(warehouse.reader, DWD)
    assert state.changes is not None
    assert state.changes.branches == {"main": made["dwd"][3].snapshot, "arctic_dead": made["dwd"][2].snapshot}
    assert state.changes.parents[made["dwd"][3].snapshot] == made["dwd"][2].snapshot
    assert state.changes.times[made["dwd"][3].snapshot] == state.changes.commits[-1].at_ms
    (step,) = plan_branch_cleanup(
        DWD, state, datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc), Thresholds().expiry
    )
    assert (step.table, step.branches) == (DWD.table.changes, ("arctic_dead",))


def test_a_base_knows_what_it_is_merged_to_behind_the_commits_of_others(shop) -> None:
    warehouse, made = shop
    base = observe_model(warehouse.reader, ODS).base
    assert base is not None
    assert base.merged == made["ods"][3]
    assert base.snapshot == warehouse.version("ods").snapshot
    assert (base.rows, base.columns) == (6, COLUMNS)


def test_a_view_is_known_by_what_it_pins(shop) -> None:
    warehouse, made = shop
    state = observe_model(warehouse.reader, DWD)
    pins = made["base"].snapshot, made["dwd"][1].snapshot, made["dwd"][3].snapshot
    assert state.view == ViewState(COLUMNS, *pins)
    assert (state.base and state.base.merged, state.conflicting) == (made["dwd"][1], None)


def test_what_was_observed_is_what_settling_needs(shop) -> None:
    warehouse, made = shop
    assert plan_reconciliation(ODS, observe_model(warehouse.reader, ODS), Thresholds().merge) == ()
    (merge,) = plan_reconciliation(DWD, observe_model(warehouse.reader, DWD), Thresholds().merge)
    assert (merge.start, merge.end, merge.commits) == (made["dwd"][1], made["dwd"][3], 2)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("model", "conflicting"),
    [
        (a_model("plain"), ConflictingRelation(TableName("lake", "dwd", "plain"), "table", is_plain=True)),
        (a_model("plain", "on_read"), ConflictingRelation(TableName("lake", "dwd", "plain"), "table", is_plain=True)),
        (a_model("report"), ConflictingRelation(TableName("lake", "dwd", "report"), "view", is_plain=True)),
        (a_model("report", "on_read"), ConflictingRelation(TableName("lake", "dwd", "report"), "view", is_plain=True)),
        (a_model("ods", "on_read"), ConflictingRelation(TableName("lake", "dwd", "ods"), "table")),
        (a_model("dwd", "on_write"), ConflictingRelation(TableName("lake", "dwd", "dwd"), "view")),
    ],
    ids=["table", "table, on_read", "view", "view, on_read", "merged on write before", "merged on read before"],
)
def test_a_foreign_relation_under_a_models_name_is_a_conflicting_relation(
    shop, model: Model, conflicting: ConflictingRelation
) -> None:
    warehouse, _ = shop
    state = observe_model(warehouse.reader, model)
    assert state.conflicting == conflicting
    assert state.base is None


def test_a_table_under_the_change_tables_name_is_a_conflicting_relation_and_no_change_table(shop) -> None:
    warehouse, _ = shop
    warehouse.create("taken__changes")
    state = observe_model(warehouse.reader, a_model("taken"))
    assert state.conflicting == ConflictingRelation(TableName("lake", "dwd", "taken__changes"), "table")
    assert state.changes is None


def test_tables_without_a_snapshot_are_unfinished_and_nothing_is_read_of_them(shop) -> None:
    warehouse, _ = shop
    warehouse.create("hollow", arctic_kind="base")
    warehouse.create("hollow__changes", arctic_kind="changes")
    model = a_model("hollow")
    assert observe_model(warehouse.reader, model) == TableState(unfinished=frozenset([model.base, model.table.changes]))
    assert observe_readable(warehouse.reader, model.table) is None


def test_a_base_that_nobody_merged_does_not_say_what_it_holds(shop) -> None:
    warehouse, _ = shop
    warehouse.create("unsaid", arctic_kind="base")
    warehouse.append("unsaid", [(1, "a")])
    base = observe_model(warehouse.reader, a_model("unsaid")).base
    assert base is not None
    assert base.merged is None


def test_a_lineage_follows_parents_and_not_everything_that_is_there(shop, writing) -> None:
    warehouse, _ = shop
    warehouse.create("rolled__changes", writing.changes, arctic_kind="changes")
    first = warehouse.append("rolled__changes", [(1, "a", "insert")])
    lost = warehouse.append("rolled__changes", [(2, "b", "insert")])
    warehouse.load("rolled__changes").manage_snapshots().rollback_to_snapshot(first.snapshot).commit()
    last = warehouse.append("rolled__changes", [(3, "c", "insert")])
    changes = observe_model(warehouse.reader, a_model("rolled")).changes
    assert changes is not None
    assert [commit.version for commit in changes.commits] == [first, last]
    assert changes.parents[lost.snapshot] == first.snapshot


def test_expired_versions_leave_a_shorter_lineage(shop, writing) -> None:
    warehouse, _ = shop
    warehouse.create("expired__changes", writing.changes, arctic_kind="changes")
    versions = [warehouse.append("expired__changes", [(i, "a", "insert")]) for i in range(3)]
    warehouse.load("expired__changes").maintenance.expire_snapshots().by_id(versions[0].snapshot).commit()
    changes = observe_model(warehouse.reader, a_model("expired")).changes
    assert changes is not None
    assert [commit.version for commit in changes.commits] == versions[1:]


def test_a_dropped_and_recreated_table_has_another_identity(shop) -> None:
    warehouse, _ = shop
    seen = []
    for _ in range(2):
        warehouse.create("again")
        warehouse.append("again", [(1, "a")])
        source = observe_source(warehouse.reader, TableName("lake", "dwd", "again"))
        assert source is not None
        seen.append(source.version)
        warehouse.reader.catalog.drop_table(("dwd", "again"))
    assert seen[0].table != seen[1].table
    assert seen[0].sequence == seen[1].sequence


def test_an_upstream_model_is_read_through_its_change_table_and_any_other_table_by_itself(shop) -> None:
    warehouse, made = shop
    model = observe_source(warehouse.reader, ODS.table)
    assert model is not None
    assert (model.kind, model.version, model.columns) == ("changes", made["ods"][3], CHANGE_COLUMNS)
    table = observe_source(warehouse.reader, TableName("lake", "dwd", "plain"))
    assert table is not None
    assert (table.kind, table.version, table.columns, table.format_version) == ("table", made["plain"], COLUMNS, 2)
    log = observe_source(warehouse.reader, ODS.table.changes)
    assert log is not None
    assert (log.kind, log.version) == ("table", made["ods"][3])


def test_an_upstream_model_reports_its_key_its_rows_and_the_version_of_its_base(shop) -> None:
    warehouse, made = shop
    ods, dwd = (observe_source(warehouse.reader, model.table) for model in (ODS, DWD))
    plain = observe_source(warehouse.reader, TableName("lake", "dwd", "plain"))
    assert ods is not None
    assert dwd is not None
    assert plain is not None
    assert (ods.key, ods.rows, ods.base) == (("id",), 6, ODS.table)
    assert (dwd.key, dwd.rows, dwd.base) == (("id",), 3, DWD.table.base)
    assert dwd.bases == ((made["base"].snapshot, made["dwd"][1]),)
    assert (plain.key, plain.rows, plain.base, plain.bases) == (None, 1, None, ())


def test_only_snapshots_of_a_base_that_say_so_hold_a_version(shop, writing) -> None:
    """A merge is two commits, of which the later says how far, perhaps both; maintenance of others says nothing."""
    warehouse, _ = shop
    warehouse.create("halves__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
    one, two = (warehouse.append("halves__changes", [(i, "a", "insert")]) for i in (1, 2))
    warehouse.create("halves", arctic_kind="base", arctic_primary_key="id")
    first = warehouse.append("halves", [(1, "a")], **writing.merged_to(one))
    warehouse.append("halves", [])
    warehouse.append("halves", [], **writing.merged_to(two))
    second = warehouse.append("halves", [(2, "a")], **writing.merged_to(two))
    warehouse.append("halves", [])
    source = observe_source(warehouse.reader, TableName("lake", "dwd", "halves"))
    assert source is not None
    assert source.bases == ((first.snapshot, one), (second.snapshot, two))


def test_an_upstream_model_without_a_base_has_its_key_all_the_same(shop, writing) -> None:
    warehouse, _ = shop
    warehouse.create("baseless__changes", writing.changes, arctic_kind="changes", arctic_primary_key="a\\,b,c")
    warehouse.append("baseless__changes", [(1, "a", "insert")])
    source = observe_source(warehouse.reader, TableName("lake", "dwd", "baseless"))
    assert source is not None
    assert (source.key, source.base, source.bases) == (("a,b", "c"), None, ())


def test_columns_that_a_table_requires_are_never_null(shop) -> None:
    warehouse, _ = shop
    fields = (NestedField(1, "id", LongType(), required=True), NestedField(2, "note", StringType(), required=False))
    warehouse.create("required", fields).append(
        pa.table({"id": pa.array([1])}, pa.schema([pa.field("id", pa.int64(), False)]))
    )
    source = observe_source(warehouse.reader, TableName("lake", "dwd", "required"))
    assert source is not None
    assert source.not_null == ("id",)


def test_snapshots_tell_what_columns_were_called_where_that_was_otherwise(shop) -> None:
    """Renamed, swapped, dropped and made again; one that was only added is nothing to tell."""
    warehouse, _ = shop
    names = ("id", "a", "b", "c", "d")
    fields = [NestedField(place, name, LongType(), required=False) for place, name in enumerate(names, 1)]
    table = warehouse.create("moved", tuple(fields))
    table.append(pa.table({name: pa.array([1]) for name in names}))
    for old, new in (("a", "x"), ("b", "swap"), ("c", "b"), ("swap", "c")):
        with table.update_schema() as change:
            change.rename_column(old, new)
    with table.update_schema() as change:
        change.delete_column("d").add_column("later", LongType())
    table.append(pa.table({name: pa.array([1]) for name in ("id", "x", "b", "c", "later")}))
    with table.update_schema() as change:
        change.add_column("D", LongType())
    first, second = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    source = observe_source(warehouse.reader, TableName("lake", "dwd", "moved"))
    assert source is not None
    assert source.old_column_names == {first: {"x": "a", "b": "c", "c": "b", "D": ""}}
    assert second not in source.old_column_names
    assert source.reassigned_columns == ("x=2", "c=3", "b=4", "d=7")


def test_what_is_no_table_or_has_no_snapshot_is_no_source(shop) -> None:
    warehouse, _ = shop
    assert observe_source(warehouse.reader, TableName("lake", "dwd", "report")) is None
    assert observe_source(warehouse.reader, TableName("lake", "dwd", "nothing")) is None
    warehouse.create("empty")
    assert observe_source(warehouse.reader, TableName("lake", "dwd", "empty")) is None


def test_a_view_can_be_looked_through_and_a_table_cannot(shop) -> None:
    warehouse, _ = shop
    assert read_view_sql(warehouse.reader, TableName("lake", "dwd", "report")) == "select * from dwd.ods"
    assert read_view_sql(warehouse.reader, TableName("lake", "dwd", "ods")) is None
    assert observe_reader_view(warehouse.reader, TableName("lake", "dwd", "report")) == ViewState(
        COLUMNS, None, None, None, is_plain=True
    )
    assert observe_reader_view(warehouse.reader, TableName("lake", "dwd", "ods")) is None


VIEWS = {
    "own": ("select * from orders", "dwd", True),
    "short": ("select * from orders", "raw", False),
    "full": ("select * from raw.orders", "raw", True),
    "joined": ("select * from raw.orders o join items i on i.id = o.id", "raw", False),
    "without": ("select * from values (1) as t(a), range(3)", "raw", True),
    "unread": ("selec from", "raw", False),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_that_finds_its_tables_in_another_schema_than_its_own_is_not_looked_through(shop, name: str) -> None:
    warehouse, _ = shop
    sql, schema, is_known = VIEWS[name]
    warehouse.create_view(name, sql, default_schema=schema)
    assert read_view_sql(warehouse.reader, TableName("lake", "dwd", name)) == (sql if is_known else None)


def test_a_plain_select_has_read_only_what_base_and_view_show(shop, writing) -> None:
    warehouse, made = shop
    assert observe_readable(warehouse.reader, TableName("lake", "dwd", "nothing")) is None
    for name, version in (("plain", made["plain"]), ("ods", made["ods"][3]), ("dwd", made["dwd"][3])):
        source = observe_readable(warehouse.reader, TableName("lake", "dwd", name))
        assert source is not None
        assert source.version == version
    warehouse.create("behind__changes", writing.changes, arctic_kind="changes")
    merged, newer = (warehouse.append("behind__changes", [(i, "a", "insert")]) for i in (1, 2))
    warehouse.create("behind", arctic_kind="base")
    warehouse.append("behind", [(1, "a")], **writing.merged_to(merged))
    behind = TableName("lake", "dwd", "behind")
    readable, source = observe_readable(warehouse.reader, behind), observe_source(warehouse.reader, behind)
    assert readable is not None
    assert source is not None
    assert (readable.version, source.version) == (merged, newer)
    assert readable.commits == source.commits


def test_a_view_that_pins_an_older_version_is_read_at_that_version(shop, writing) -> None:
    warehouse, _ = shop
    warehouse.create("late__changes", writing.changes, arctic_kind="changes")
    pinned, _newer = (warehouse.append("late__changes", [(i, "a", "insert")]) for i in (1, 2))
    warehouse.create_view("late", "select 1", arctic_changes_snapshot=str(pinned.snapshot))
    source = observe_readable(warehouse.reader, TableName("lake", "dwd", "late"))
    assert source is not None
    assert source.version == pinned


@pytest.mark.parametrize(
    "again",
    [
        pytest.param({}, id="plain"),
        pytest.param({"arctic_kind": "base"}, id="replaced, with the properties that were there"),
    ],
)
def test_a_change_table_tells_nothing_of_a_table_that_somebody_made_again_under_its_models_name(
    shop, writing, again: dict[str, str]
) -> None:
    warehouse, _ = shop
    name = f"remade{len(again)}"
    warehouse.create(f"{name}__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
    warehouse.append(f"{name}__changes", [(1, "a", "insert")])
    warehouse.create(name, **again)
    made = warehouse.append(name, [(7, "g")])
    for observe in (observe_source, observe_readable):
        source = observe(warehouse.reader, TableName("lake", "dwd", name))
        assert source is not None
        assert (source.kind, source.version, source.key) == ("table", made, None)


def test_a_change_table_tells_nothing_of_a_view_of_others_under_its_models_name(shop, writing) -> None:
    """What such a view reads is followed instead, and changes of it there are none."""
    warehouse, _ = shop
    warehouse.create("viewed__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
    warehouse.append("viewed__changes", [(1, "a", "insert")])
    warehouse.create_view("viewed", "select * from dwd.ods")
    for observe in (observe_source, observe_readable):
        assert observe(warehouse.reader, TableName("lake", "dwd", "viewed")) is None
    assert read_view_sql(warehouse.reader, TableName("lake", "dwd", "viewed")) == "select * from dwd.ods"
