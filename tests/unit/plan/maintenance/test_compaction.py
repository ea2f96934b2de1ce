"""What files are written anew: thresholds, costs, and plans that leave nothing due and nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.files.compaction import (
    CompactionMode,
    DataFile,
    FileGroup,
    FileTotals,
    MergeUnmerged,
    PartitionValue,
    RewriteFiles,
    TableFiles,
    describe_compaction,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, TableState
from arctic_runtime.model.table import Compaction, Model, ModelConfig, Transform
from arctic_runtime.model.version import Version
from arctic_runtime.plan.maintenance.compaction import (
    describe_plan,
    get_small_file_bytes,
    is_worth_a_look,
    plan_file_compaction,
)
from arctic_runtime.thresholds import Thresholds

THRESHOLDS = Thresholds()
COSTS = THRESHOLDS.compaction

MIB = 1024 * 1024
TARGET = 512 * MIB
TABLE = TableName("lake", "dwd", "orders")
LIMITS = Compaction(deleted_share=0.25, small_files=4, change_files=6)
MODEL = Model(TABLE, "", ModelConfig(("id",), hash_key="id", compaction=LIMITS))
BUCKET = Transform("bucket", "id", 64)
SETTLED = TableState()
SMALL = DataFile(MIB, 100)
LARGE = DataFile(100 * MIB, 10_000)
MODES: tuple[CompactionMode, ...] = ("auto", "minor", "major", "full")


def node(number: int, *files: DataFile, spec: int = 0) -> FileGroup:
    return FileGroup(spec, (PartitionValue(BUCKET, str(number), "int"),), files)


def base(*nodes: FileGroup, target: int = TARGET) -> TableFiles:
    return TableFiles(TABLE, 7, nodes, target)


def log(*files: DataFile) -> TableFiles:
    return TableFiles(TABLE.changes, 9, (FileGroup(0, (), files),), TARGET)


def planned(files: Sequence[TableFiles] | TableFiles, mode: CompactionMode, model: Model = MODEL) -> list[RewriteFiles]:
    tables = [files] if isinstance(files, TableFiles) else files
    steps = plan_file_compaction(model, SETTLED, tables, mode, THRESHOLDS).steps
    return [step for step in steps if isinstance(step, RewriteFiles)]


def deleted(file: DataFile, share: float) -> DataFile:
    return replace(file, deleted=int(file.rows * share))


_files = st.builds(
    lambda size, rows, share: DataFile(size, rows, int(rows * share)),
    st.sampled_from([1, MIB, COSTS.small_file_bytes - 1, COSTS.small_file_bytes, 100 * MIB, 600 * MIB]),
    st.integers(1, 1000),
    st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0]),
)
_nodes = st.lists(st.lists(_files, min_size=1, max_size=12), max_size=6).map(
    lambda lists: [node(i, *files) for i, files in enumerate(lists)]
)
_targets = st.sampled_from([4 * MIB, TARGET])


@pytest.mark.parametrize(
    ("files", "ways"),
    [
        ([SMALL], "- - - -"),
        ([SMALL] * 2, "- join - sort"),
        ([SMALL] * 4, "- join - sort"),
        ([SMALL] * 5, "- join join sort"),
        ([SMALL] * 18, "join join join sort"),
        ([LARGE, *[SMALL] * 18], "join join join sort"),
        ([LARGE], "- - - -"),
        ([DataFile(300 * MIB, 1)] * 3, "- - - sort"),
        ([DataFile(500 * MIB, 1)] * 3, "- - - -"),
        ([LARGE] * 5, "- - - sort"),
        ([deleted(LARGE, 0.25)], "- - - sort"),
        ([deleted(LARGE, 0.3)], "- - sort sort"),
        ([deleted(LARGE, 0.7)], "sort - sort sort"),
        ([deleted(SMALL, 0.01)], "- - - sort"),
        ([deleted(SMALL, 0.9)], "- - sort sort"),
        ([*[SMALL] * 17, deleted(LARGE, 0.9)], "sort join sort sort"),
    ],
    ids=lambda value: str(len(value)) if isinstance(value, list) else value,
)
def test_thresholds_and_costs_say_what_becomes_of_a_node(files: list[DataFile], ways: str) -> None:
    """In the order of the modes; `auto` also asks whether what readers lose is worth a commit."""
    assert COSTS.commit_bytes == 16 * COSTS.open_file_bytes
    found = [planned(base(node(1, *files), target=500 * MIB), mode) for mode in MODES]
    assert " ".join(steps[0].way if steps else "-" for steps in found) == ways


def test_small_files_are_joined_and_large_ones_of_the_same_node_stay_as_they_are() -> None:
    (step,) = planned(base(node(1, LARGE, *[SMALL] * 20), node(2, LARGE)), "minor")
    assert (step.way, step.files, step.bytes, step.expected) == ("join", 20, 20 * MIB, 7)
    assert [str(of) for of in step.nodes] == ["bucket(64, id) = 1"]
    assert not step.whole
    assert step.waste == 19 * COSTS.open_file_bytes


def test_what_a_reader_loses_are_opened_files_and_deleted_rows() -> None:
    (step,) = planned(base(node(1, deleted(LARGE, 0.5), LARGE)), "full")
    assert step.waste == 2 * COSTS.open_file_bytes + 50 * MIB
    assert step.bytes == 200 * MIB
    assert step.whole


def test_tiny_tables_are_left_alone_until_a_commit_is_worth_it() -> None:
    """All nodes that are over a threshold count together."""
    tiny = [node(i, deleted(SMALL, 0.5)) for i in range(14)]
    assert planned(base(*tiny), "auto") == []
    (left,) = {left.reason for left in plan_file_compaction(MODEL, SETTLED, [base(*tiny)], "auto", THRESHOLDS).left}
    assert "less than the 67,108,864 that a commit costs" in left
    (step,) = planned(base(*tiny, node(14, deleted(SMALL, 0.5)), node(15, deleted(SMALL, 0.5))), "auto")
    assert len(step.nodes) == 16


def test_files_of_the_change_table_are_joined_and_never_sorted() -> None:
    assert planned(log(*[SMALL] * 6), "major") == []
    for mode in ("auto", "minor", "major"):
        (step,) = planned(log(*[SMALL] * 20, deleted(LARGE, 0.2)), mode)
        assert (step.table, step.way, step.files) == (TABLE.changes, "join", 20)
    (step,) = planned(log(*[SMALL] * 20, LARGE), "full")
    assert (step.table, step.way, step.files) == (TABLE.changes, "join", 20)
    assert planned(log(SMALL), "full") == []


def test_a_full_compaction_leaves_no_deleted_row_in_the_change_table() -> None:
    """Some readers do not know deletion vectors."""
    (step,) = planned(log(LARGE, deleted(LARGE, 0.01)), "full")
    assert (step.table, step.way, step.files, step.whole) == (TABLE.changes, "sort", 2, True)
    assert planned(log(LARGE, deleted(LARGE, 0.01)), "major") == []


def test_a_change_table_is_rewritten_after_much_changelog_compaction() -> None:
    for mode in ("auto", "major", "full"):
        (step,) = planned(log(SMALL, *[deleted(LARGE, 0.5)] * 5), mode)
        assert (step.table, step.way, step.files, step.whole) == (TABLE.changes, "sort", 6, True)
    assert planned(log(SMALL, *[deleted(LARGE, 0.5)] * 5), "minor") == []


def test_files_of_several_specs_come_under_one_together_or_not_at_all() -> None:
    lying = base(node(1, *[SMALL] * 30), node(2, SMALL, spec=1))
    for mode in ("auto", "minor", "major"):
        assert planned(lying, mode) == []
    (step,) = planned(lying, "full")
    assert (step.way, step.whole, len(step.nodes)) == ("sort", True, 2)
    (left, _) = plan_file_compaction(MODEL, SETTLED, [lying], "auto", THRESHOLDS).left
    assert "several partition specs" in left.reason
    done = replace(lying, finished_groups=frozenset(lying.identify_group(node) for node in lying.file_groups))
    assert plan_file_compaction(MODEL, SETTLED, [done], "full", THRESHOLDS).steps == ()


def test_work_is_cut_into_commits_by_bytes_and_by_nodes() -> None:
    large = [node(i, *[LARGE] * 4, deleted(LARGE, 0.1)) for i in range(5)]
    assert [len(step.nodes) for step in planned(base(*large), "full")] == [2, 2, 1]
    assert 2 * 500 * MIB <= COSTS.group_bytes < 3 * 500 * MIB
    small = [node(i, SMALL, SMALL) for i in range(COSTS.group_nodes + 1)]
    assert [len(step.nodes) for step in planned(base(*small), "minor")] == [COSTS.group_nodes, 1]


def test_what_was_done_a_moment_ago_is_not_done_again() -> None:
    lying = base(node(1, SMALL, SMALL), node(2, SMALL, SMALL))
    half_done = replace(lying, finished_groups=frozenset({lying.identify_group(lying.file_groups[0])}))
    (step,) = plan_file_compaction(MODEL, SETTLED, [half_done], "minor", THRESHOLDS).steps
    assert isinstance(step, RewriteFiles)
    assert step.nodes == lying.file_groups[1:]


@pytest.mark.parametrize("mode", MODES)
def test_unmerged_changes_are_merged_first_where_that_was_asked_for(mode: CompactionMode) -> None:
    commits = tuple(Commit(Version("log", i, i), None, "append", 10, 500, {}, 0) for i in (1, 2, 3))
    state = TableState(ChangeTableState("log", (), commits, {}), BaseState("b", (), 7, commits[0].version, 10, {}))
    steps = plan_file_compaction(MODEL, state, [], mode, THRESHOLDS).steps
    expected = (MergeUnmerged(TABLE, 2, 20, 1000, "every reader has to lay them over the base"),)
    assert steps == (expected if mode in ("major", "full") else ())


@pytest.mark.parametrize(
    ("table", "totals", "looks"),
    [
        (TABLE, FileTotals(4, 0), False),
        (TABLE, FileTotals(5, 0), True),
        (TABLE, FileTotals(1, 1), True),
        (TABLE, FileTotals(5, 0, appends=1), False),
        (TABLE, FileTotals(5, 0, appends=2), True),
        (TABLE, FileTotals(1, 0, bytes=256 * MIB), False),
        (TABLE, FileTotals(1, 0, bytes=256 * MIB + 1), True),
        (TABLE, FileTotals(1, 0, appends=1, bytes=900 * MIB, added_bytes=128 * MIB), False),
        (TABLE, FileTotals(1, 0, appends=1, bytes=900 * MIB, added_bytes=129 * MIB), True),
        (TABLE.changes, FileTotals(1, 0, appends=1, bytes=900 * MIB, added_bytes=129 * MIB), False),
        (TABLE.changes, FileTotals(6, 0), False),
        (TABLE.changes, FileTotals(6, 9), True),
        (TABLE.changes, FileTotals(7, 0), True),
        (TABLE.changes, FileTotals(7, 0, appends=4), False),
        (TABLE.changes, FileTotals(7, 0, appends=6), True),
    ],
)
def test_files_are_looked_at_where_there_are_enough_and_only_now_and_then(
    table: TableName, totals: FileTotals, looks: bool
) -> None:
    assert is_worth_a_look(MODEL, table, totals) is looks


def test_with_the_lowest_threshold_files_are_looked_at_after_every_commit() -> None:
    model = replace(MODEL, config=replace(MODEL.config, compaction=Compaction(small_files=1)))
    assert all(is_worth_a_look(model, TABLE, FileTotals(2, 0, appends)) for appends in range(5))


@settings(max_examples=30)
@given(nodes=_nodes)
def test_where_counts_rule_it_out_nothing_is_planned(nodes: list[FileGroup]) -> None:
    files = [file for of in nodes for file in of.files]
    totals = FileTotals(len(files), sum(file.deleted for file in files))
    assert is_worth_a_look(MODEL, TABLE, totals) or not planned(base(*nodes), "auto")


def test_a_plan_is_reported_with_reasons_and_what_it_costs() -> None:
    lying = base(node(1, deleted(LARGE, 0.5)), node(2, LARGE), node(3, *[SMALL] * 20))
    assert describe_plan(plan_file_compaction(MODEL, SETTLED, [lying], "major", THRESHOLDS), THRESHOLDS.reports) == [
        "to do: join 20 small files of lake.dwd.orders, 20,971,520 bytes, in 1 node(s): up to 20 small files in a "
        "node, more than 4",
        "  pays for itself after 1 full read(s)",
        "to do: rewrite 1 files of lake.dwd.orders, 104,857,600 bytes, in 1 node(s): up to 50% of a node's rows are "
        "deleted, more than 25%",
        "  pays for itself after 2 full read(s)",
        "left alone: lake.dwd.orders, bucket(64, id) = 2: 1 files, 0 of them small, 0% deleted: up to 4 small files "
        "and 25% deleted are left alone",
    ]
    assert describe_plan(plan_file_compaction(MODEL, SETTLED, [], "auto", THRESHOLDS), THRESHOLDS.reports) == [
        "nothing to do"
    ]
    many = describe_plan(
        plan_file_compaction(MODEL, SETTLED, [base(*[node(i, LARGE) for i in range(25)])], "auto", THRESHOLDS),
        THRESHOLDS.reports,
    )
    assert (len(many), many[-1]) == (21, "and 5 more node(s) are left alone")
    assert describe_compaction(MergeUnmerged(TABLE, 2, 1500, 9000, "why")) == (
        "merge 2 commit(s) of 1,500 change rows, 9,000 bytes, into lake.dwd.orders: why"
    )


# Properties


def rewritten(of: FileGroup, step: RewriteFiles) -> FileGroup:
    """What a rewrite makes of a node: files of the target size and the rest."""
    taken = [file for file in of.files if step.way == "sort" or file.bytes < step.small_bytes]
    others = [file for file in of.files if file not in taken]
    size = sum(file.bytes * (file.rows - file.deleted) // file.rows for file in taken)
    rows = sum(file.rows - file.deleted for file in taken)
    count = max(1, -(-size // step.target_bytes))
    made = [DataFile(-(-size // count), rows // count)] * count if rows else []
    return replace(of, files=(*others, *made))


def performed(lying: TableFiles, steps: Sequence[Any]) -> TableFiles:
    nodes = {of: of for of in lying.file_groups}
    for step in steps:
        nodes |= {of: rewritten(of, step) for of in step.nodes}
    return replace(lying, file_groups=tuple(of for of in nodes.values() if of.files))


@settings(max_examples=30)
@given(nodes=_nodes, target=_targets, mode=st.sampled_from(MODES))
def test_no_node_is_in_two_steps_and_all_are_in_the_plan(
    nodes: list[FileGroup], target: int, mode: CompactionMode
) -> None:
    plan = plan_file_compaction(MODEL, SETTLED, [base(*nodes, target=target)], mode, THRESHOLDS)
    taken = [of for step in plan.steps if isinstance(step, RewriteFiles) for of in step.nodes]
    assert sorted([*taken, *(left.node for left in plan.left)], key=str) == sorted(nodes, key=str)


@settings(max_examples=30)
@given(nodes=_nodes, target=_targets)
def test_a_plan_never_leaves_out_a_node_that_is_over_a_threshold(nodes: list[FileGroup], target: int) -> None:
    lying = base(*nodes, target=target)
    taken = {of for step in planned(lying, "major") for of in step.nodes}
    for of in nodes:
        small = [file for file in of.files if file.bytes < get_small_file_bytes(lying, COSTS)]
        rows = sum(file.rows for file in of.files)
        is_over = len(small) > LIMITS.small_files or sum(file.deleted for file in of.files) / rows > 0.25
        assert (of in taken) == is_over
    unasked = {of for step in planned(lying, "auto") for of in step.nodes}
    assert unasked in (taken, set())


@settings(max_examples=30)
@given(nodes=_nodes, target=_targets, mode=st.sampled_from(MODES))
def test_nothing_is_due_twice_in_a_row(nodes: list[FileGroup], target: int, mode: CompactionMode) -> None:
    lying = base(*nodes, target=target)
    after = performed(lying, planned(lying, mode))
    assert planned(after, mode) == []
