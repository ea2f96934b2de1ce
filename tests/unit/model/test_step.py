"""Steps: every one can be told to people in one line."""

from __future__ import annotations

from typing import get_args

import pytest

from arctic_runtime.model.baseline import Baseline
from arctic_runtime.model.columns import Column, SchemaChange, find_column, strip_change_columns
from arctic_runtime.model.files.compaction import (
    BucketRange,
    DataFile,
    FileGroup,
    ResizeBuckets,
    RewriteBase,
    RewriteFiles,
    describe_compaction,
)
from arctic_runtime.model.files.expiry import Age, CompactChangelog, DropTags, ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import SetTag
from arctic_runtime.model.state import ConflictingRelation
from arctic_runtime.model.step import (
    AdoptBase,
    AppendChanges,
    CreateAppended,
    CreateBase,
    CreateChangeTable,
    DropBranches,
    DropChangesView,
    DropConflictingRelation,
    DropCurrentView,
    DropRelation,
    DropTable,
    EvolveSchema,
    MergeBase,
    NoteChangesView,
    NoteCurrentView,
    ReplaceChangesView,
    ReplaceCurrentView,
    ReplaceView,
    SetLayout,
    SetProperties,
    SetWriteOrder,
    Step,
    describe_step,
)
from arctic_runtime.model.table import Transform
from arctic_runtime.model.version import Version

ORDERS = TableName("lake", "dwd", "orders")
V = Version("t", 1, 1)
ADD = SchemaChange((Column("a", "int"),), (Column("b", "bigint"),), ("c", "d"))
NODE = FileGroup(0, (), (DataFile(10, 1),))
RESIZING = ResizeBuckets(ORDERS, 1, "split", (NODE,), 1, 1, True, 1, 10, 10, "it is large")
BASE_REWRITE = RewriteBase(ORDERS, 1, V, V, 1, 1, 10, 1, 0, (), (BucketRange(0, 1),), (), (), "hash", "many changes")
REWRITE = RewriteFiles(ORDERS, 1, "join", (NODE,), True, 2, 20, 0, 0, 0, "they are small")
DONE: dict[Step, str] = {
    DropConflictingRelation(
        ConflictingRelation(ORDERS, "view")
    ): "drop view lake.dwd.orders, which this model did not make",
    DropTable(ORDERS): "drop lake.dwd.orders, since it can't be replaced by one of an older format version",
    DropBranches(ORDERS, ("x", "y")): "drop 2 branch(es) left on lake.dwd.orders",
    CreateChangeTable(ORDERS.changes, (), "bigint"): "create change table lake.dwd.orders__changes",
    CreateAppended(ORDERS, ()): "create lake.dwd.orders, to which events are appended",
    SetLayout(ORDERS, (), (), ("a",), (), "{}"): "lay out the files of lake.dwd.orders as configured",
    EvolveSchema(ORDERS, ADD, False): "change columns of lake.dwd.orders: add a int, widen b to bigint, drop c, drop d",
    EvolveSchema(ORDERS, SchemaChange(rename=(("a", "b"),)), False): (
        "change columns of lake.dwd.orders: rename a to b"
    ),
    AdoptBase(ORDERS, Baseline(ORDERS, 7), V): "make lake.dwd.orders the base of the model, with the rows that it has",
    CreateBase(ORDERS, V, 10): "create lake.dwd.orders from its changes",
    MergeBase(ORDERS, 1, None, V, 3): "merge 3 commit(s) of changes into lake.dwd.orders",
    ReplaceCurrentView(ORDERS, ORDERS): "replace view lake.dwd.orders of the current versions of lake.dwd.orders",
    NoteCurrentView(ORDERS, "now"): "note in lake.dwd.orders that now shows the current versions",
    NoteCurrentView(ORDERS, ""): "note in lake.dwd.orders that no view shows the current versions",
    NoteChangesView(ORDERS, "feed"): "note in lake.dwd.orders that feed shows the change rows",
    ReplaceChangesView(ORDERS, ORDERS): "replace view lake.dwd.orders of the change rows of lake.dwd.orders",
    DropChangesView(ORDERS): "drop view lake.dwd.orders of change rows",
    DropCurrentView(ORDERS): "drop view lake.dwd.orders of current versions",
    ReplaceView(ORDERS, 1, V, V, 2): "replace view lake.dwd.orders: base and 2 commit(s) of changes",
    REWRITE: describe_compaction(REWRITE),
    RESIZING: describe_compaction(RESIZING),
    BASE_REWRITE: describe_compaction(BASE_REWRITE),
    CompactChangelog(
        ORDERS.changes, 1, Age(7, 0)
    ): "delete replaced change rows of lake.dwd.orders__changes up to sequence number 7",
    DropTags(ORDERS, ("a", "b")): "drop 2 tag(s) of lake.dwd.orders that kept snapshots for a view",
    ExpireSnapshots(ORDERS, (1, 2, 3)): "expire 3 snapshot(s) of lake.dwd.orders",
    SetTag(ORDERS, "monday", 5): "tag snapshot 5 as monday in lake.dwd.orders",
    SetTag(ORDERS, "monday", None): "drop tag monday in lake.dwd.orders",
    SetWriteOrder(ORDERS): "have writers sort the files of lake.dwd.orders by its sort key",
    DropRelation(ORDERS, "view"): "drop view lake.dwd.orders",
}


@pytest.mark.parametrize("step", DONE, ids=lambda step: type(step).__name__)
def test_a_step_is_reported_in_one_line(step: Step) -> None:
    assert describe_step(step) == DONE[step]


def test_the_transaction_is_reported_with_its_mode_and_reason() -> None:
    step = AppendChanges(ORDERS.changes, 1, "full", "FULL_REFRESH")
    assert describe_step(step) == "append changes to lake.dwd.orders__changes (full, FULL_REFRESH)"


def test_set_properties_are_named_without_their_values() -> None:
    assert describe_step(SetProperties("repair.mark", ORDERS, {"a": "1", "b": "2"})) == "set a, b of lake.dwd.orders"


def test_every_kind_of_step_is_described() -> None:
    assert {*map(type, DONE), SetProperties} == set(get_args(Step))


def test_columns_are_found_in_any_case_and_change_rows_can_be_stripped() -> None:
    columns = tuple(Column(name, "int") for name in ("Id", "x", "_action", "_ts", "_seq", "_before"))
    assert find_column(columns, "iD") == columns[0]
    assert find_column(columns, "nope") is None
    assert strip_change_columns(columns) == columns[:2]


def test_a_change_of_columns_is_empty_only_without_any_part() -> None:
    assert SchemaChange().is_empty
    assert not any(SchemaChange(**part).is_empty for part in ({"add": ADD.add}, {"widen": ADD.widen}, {"drop": ("c",)}))


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (Transform("identity", "region"), "region"),
        (Transform("days", "ts"), "days(ts)"),
        (Transform("bucket", "id", 16), "bucket(16, id)"),
    ],
)
def test_a_transform_is_reported_as_it_is_written(transform: Transform, text: str) -> None:
    assert str(transform) == text
