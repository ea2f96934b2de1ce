"""When a base is written anew with its changes, in what parts, and what a merge that was begun goes on with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.files.compaction import (
    BucketRange,
    DataFile,
    FileGroup,
    MergeUnmerged,
    PartialProgress,
    PartitionValue,
    RewriteBase,
    RewriteFiles,
    TableFiles,
    describe_compaction,
    format_rewrite_branch,
    parse_rewrite_branch,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, TableState
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.model.version import Version
from arctic_runtime.plan.maintenance.base_rewrite import plan_base_rewrite
from arctic_runtime.plan.maintenance.compaction import plan_file_compaction
from arctic_runtime.thresholds import Thresholds

LIMITS = Thresholds()
REWRITE = LIMITS.base_rewrite
PART_BYTES = REWRITE.part_bytes
MIB = 1024 * 1024
TABLE = TableName("lake", "dwd", "orders")
MODEL = Model(TABLE, "", ModelConfig(("id", "n"), hash_key="ID", merge="on_read"))
BUCKET = Transform("bucket", "id", 8)
DAY = Transform("days", "at")
HEAD = 70


def commit(sequence: int, rows: int, size: int = MIB) -> Commit:
    return Commit(Version("log", 10 * sequence, sequence), None, "append", rows, size, {}, 0)


def table_state(*rows: int, size: int = MIB, base_rows: int = 1000) -> TableState:
    """A base merged to the first commit, and one commit for each number of rows after it."""
    commits = (commit(1, 1000), *(commit(place, count, size) for place, count in enumerate(rows, 2)))
    base = BaseState("base", (), HEAD, commits[0].version, base_rows, {})
    return TableState(ChangeTableState("log", (), commits, {}), base)


def lying(*sizes: int, transforms: tuple[Transform, ...] = (BUCKET,), spec: int = 0) -> TableFiles:
    """A file of each size in a bucket of its own, from the first on; other transforms give the same for all rows."""
    above = tuple(PartitionValue(transform, "2024-01-01", "date") for transform in transforms[:-1])
    nodes = tuple(
        FileGroup(spec, (*above, PartitionValue(transforms[-1], str(place), "int")), (DataFile(size, 100),))
        for place, size in enumerate(sizes)
    )
    return TableFiles(MODEL.base, HEAD, nodes, 512 * MIB)


def planned(state: TableState, files: TableFiles, is_full: bool = False, model: Model = MODEL) -> RewriteBase | None:
    return plan_base_rewrite(model, state, files, is_full, REWRITE)


@pytest.mark.parametrize(
    ("rows", "is_full", "transforms", "is_anew"),
    [
        (49, False, (BUCKET,), False),
        (50, False, (BUCKET,), True),
        (REWRITE.changed_rows_per_bucket * 8 - 1, True, (BUCKET,), False),
        (REWRITE.changed_rows_per_bucket * 8, True, (BUCKET,), True),
        (REWRITE.changed_rows_per_bucket * 8, True, (DAY, BUCKET), False),
        (50, True, (DAY, BUCKET), True),
        (0, True, (BUCKET,), False),
    ],
)
def test_a_base_is_rewritten_if_changes_are_many_or_a_full_compaction_would_write_it_anyway(
    rows: int, is_full: bool, transforms: tuple[Transform, ...], is_anew: bool
) -> None:
    assert REWRITE.changed_share == 0.05
    step = planned(table_state(rows), lying(MIB, transforms=transforms), is_full)
    assert (step is not None) == is_anew


def test_a_step_says_what_is_merged_and_how_far() -> None:
    state = table_state(60, 50)
    step = planned(state, lying(MIB, 2 * MIB))
    assert step is not None
    assert state.changes is not None
    assert (step.table, step.expected, step.end) == (MODEL.base, HEAD, state.changes.newest)
    assert (step.start.sequence, step.commits, step.rows, step.bytes, step.waste) == (1, 2, 110, 3 * MIB, 2 * MIB)
    assert (step.transforms, step.ranges, step.remaining) == ((BUCKET,), (BucketRange(0, 7),), (BucketRange(0, 7),))
    assert describe_compaction(step) == (
        "write lake.dwd.orders__base anew, 3,145,728 bytes, with 2 commit(s) of 110 change rows merged in: "
        "110 changes for 1,000 rows are in nearly every file"
    )


@pytest.mark.parametrize(
    "files",
    [
        lying(),
        lying(MIB, transforms=(Transform("bucket", "other", 8),)),
        lying(MIB, transforms=(DAY,)),
        lying(REWRITE.task_bytes + 1),
        replace(lying(MIB), snapshot=HEAD + 1),
        replace(lying(MIB), file_groups=(*lying(MIB).file_groups, *lying(MIB, spec=1).file_groups)),
        replace(lying(MIB), file_groups=(FileGroup(0, (), (DataFile(MIB, 1),)),)),
        replace(lying(MIB), file_groups=(FileGroup(0, (PartitionValue(BUCKET, "1", ""),), (DataFile(MIB, 1),)),)),
    ],
    ids=["empty", "other key", "no bucket", "too large", "moved on", "two specs", "no nodes", "nothing known"],
)
def test_files_that_do_not_lie_by_nodes_of_the_hash_key_are_left_to_a_fold(files: TableFiles) -> None:
    assert planned(table_state(500), files, is_full=True) is None
    steps = plan_file_compaction(MODEL, table_state(500), [files], "major", LIMITS).steps
    assert [type(step) for step in steps] == [MergeUnmerged]


def test_a_plan_with_a_base_rewrite_compacts_no_files_of_the_base() -> None:
    log = TableFiles(TABLE.changes, 9, (FileGroup(0, (), (DataFile(MIB, 1),) * 3),), 512 * MIB)
    steps = plan_file_compaction(MODEL, table_state(500), [lying(*[MIB] * 3), log], "full", LIMITS).steps
    assert [(type(step), step.table) for step in steps] == [(RewriteBase, MODEL.base), (RewriteFiles, TABLE.changes)]
    assert [
        type(step) for step in plan_file_compaction(MODEL, table_state(500), [lying(MIB)], "auto", LIMITS).steps
    ] == []


def test_changes_that_a_task_could_not_hold_are_sorted() -> None:
    held_bytes = 8 * REWRITE.hashed_change_bytes
    held, sorted_ = (planned(table_state(500, size=size), lying(MIB)) for size in (held_bytes, held_bytes + 8))
    assert held is not None
    assert sorted_ is not None
    assert (held.meeting, sorted_.meeting) == ("hash", "sort")


def test_rows_are_sorted_by_the_sort_key_and_else_only_where_files_of_a_node_are_cut() -> None:
    sorted_model = replace(MODEL, config=replace(MODEL.config, sort_key=("at", "n")))
    few, many = lying(MIB), replace(lying(MIB), target_bytes=MIB - 1)
    plans = [
        planned(table_state(500), *states[:1], model=states[1])
        for states in ((few, MODEL), (many, MODEL), (few, sorted_model))
    ]
    assert [step.order for step in plans if step] == [(), ("id", "n"), ("at", "n", "id")]


@given(st.lists(st.sampled_from([0, MIB, PART_BYTES // 3, PART_BYTES - 1, PART_BYTES]), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_parts_are_all_nodes_once_and_no_more_than_allowed(sizes: list[int]) -> None:
    step = planned(table_state(500), lying(*sizes))
    assert step is not None
    assert [n for part in step.ranges for n in range(part.first, part.last + 1)] == list(range(8))
    assert len(step.ranges) <= 2 * REWRITE.parts
    for part in step.ranges:
        assert sum(sizes[part.first : part.last + 1]) <= max(PART_BYTES, sum(sizes) // REWRITE.parts)


def test_a_begun_merge_continues_up_to_its_own_version_and_only_on_this_base() -> None:
    state = table_state(1, 60)
    files = lying(PART_BYTES, PART_BYTES)
    done = frozenset([BucketRange(0, 0)])
    mine = PartialProgress(format_rewrite_branch(HEAD, 20), 20, done)
    step = planned(state, replace(files, progress=(mine,)))
    assert step is not None
    assert (step.end.snapshot, step.rows, step.commits, step.done) == (20, 1, 1, (BucketRange(0, 0),))
    assert step.remaining == step.ranges[1:]
    assert step.branch == mine.branch
    assert "1 of 2 part(s) done before" in describe_compaction(step)
    others = (
        PartialProgress(format_rewrite_branch(HEAD + 1, 20), 20, done),
        PartialProgress(format_rewrite_branch(HEAD, 999), 999, done),
        PartialProgress(format_rewrite_branch(HEAD, 20), 20, frozenset()),
    )
    fresh = planned(state, replace(files, progress=others))
    assert fresh is not None
    assert (fresh.end.snapshot, fresh.done) == (30, ())


@pytest.mark.parametrize(
    ("branch", "end"),
    [
        (format_rewrite_branch(HEAD, 5), 5),
        (format_rewrite_branch(HEAD + 1, 5), None),
        (f"arctic_renew_{HEAD}_x", None),
        ("main", None),
        (f"arctic_renew_{HEAD}", None),
    ],
)
def test_a_branch_is_known_by_the_snapshots_that_it_is_of(branch: str, end: int | None) -> None:
    assert parse_rewrite_branch(branch, HEAD) == end
