"""Which nodes split and which are put together: limits, whole levels, partitions, and plans that come to an end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.files.compaction import (
    CompactionMode,
    CompactionStep,
    DataFile,
    FileGroup,
    PartitionValue,
    ResizeBuckets,
    RewriteFiles,
    TableFiles,
    describe_compaction,
)
from arctic_runtime.model.files.layout import HashNode
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.plan.maintenance.compaction import describe_plan, list_rewritten_groups, plan_file_compaction
from arctic_runtime.plan.maintenance.hash_trees import compute_main_depth, is_in_tree, list_bucket_counts, list_units
from arctic_runtime.plan.maintenance.split import NO_TREE, SIDE_BY_SIDE, plan_split
from arctic_runtime.thresholds import Thresholds

LIMITS = Thresholds()
MIB = 1024 * 1024
LIMIT = 256 * MIB
TABLE = TableName("lake", "dwd", "orders")
MODEL = Model(TABLE, "", ModelConfig(("id",), hash_key="id"))
DAY = Transform("days", "at")


def bucket(depth: int, column: str = "id") -> Transform:
    return Transform("bucket", column, 1 << depth)


def node(depth: int, index: int, *sizes: float, day: str | None = None, deleted: int = 0) -> FileGroup:
    """A node of spec `depth` with files of so many MiB."""
    partition = (PartitionValue(bucket(depth), str(index), "int"),)
    days = () if day is None else (PartitionValue(DAY, day, "date"),)
    return FileGroup(depth, (*days, *partition), tuple(DataFile(int(size * MIB), 1000, deleted) for size in sizes))


def lying(*nodes: FileGroup, depth: int | None = None) -> TableFiles:
    default = nodes[-1].spec if depth is None else depth
    days = tuple(value.transform for value in nodes[0].partition[:-1])
    return TableFiles(TABLE, 7, nodes, 128 * MIB, default, (*days, bucket(default)))


def level(depth: int, size: float, **sizes: float) -> list[FileGroup]:
    """All nodes of a depth, each of so many MiB; `n3=40` gives the one with index 3 another size."""
    return [node(depth, i, sizes.get(f"n{i}", size)) for i in range(1 << depth)]


def moved(table: TableFiles, model: Model = MODEL) -> list[tuple[str, list[str], int, int]]:
    """Direction, nodes, their new depth and that of what is written next."""
    groups = []
    for step in plan_split(model, table, LIMITS).steps:
        assert isinstance(step, ResizeBuckets)
        groups.append(
            (step.direction, [node.partition[-1].value or "" for node in step.nodes], step.depth, step.default_depth)
        )
    return groups


def with_config(**config: Any) -> Model:
    return replace(MODEL, config=replace(MODEL.config, **config))


def test_a_node_over_its_limit_splits_into_its_two_children_alone() -> None:
    (step,) = plan_split(MODEL, lying(*level(4, 100, n3=300)), LIMITS).steps
    assert isinstance(step, ResizeBuckets)
    assert (step.direction, step.depth, step.default_depth, step.bytes) == ("split", 5, 4, 300 * MIB)
    assert [str(node) for node in step.nodes] == ["bucket(16, id) = 3"]
    assert not step.whole
    assert step.buckets == (16,)


@pytest.mark.parametrize(("size", "depth"), [(257, 5), (384, 5), (385, 6), (1500, 7), (10**9, 16)])
def test_a_node_far_over_its_limit_is_split_deep_enough_at_once(size: int, depth: int) -> None:
    assert moved(lying(*level(4, 10, n3=size)))[0][2] == depth
    assert depth == 16 or size / 2 ** (depth - 4) <= 0.75 * 256


def test_nodes_within_their_limit_stay_and_the_plan_says_why() -> None:
    plan = plan_split(MODEL, lying(*level(2, 256)), LIMITS)
    assert plan.steps == ()
    assert [left.reason for left in plan.left] == [
        "268,435,456 bytes, within 268,435,456, and too many to be put together"
    ] * 4


def test_a_whole_level_splits_at_once_where_all_are_about_to_outgrow_their_limit() -> None:
    """The largest come last, so that a run which dies in between leaves what makes the next one go on."""
    steps = moved(lying(*level(2, 220, n1=260)))
    assert steps == [("split", ["0", "2", "3", "1"], 3, 3)]
    assert moved(lying(*level(2, 190, n1=260))) == [("split", ["0", "2", "3", "1"], 3, 3)]
    assert moved(lying(*level(2, 160, n1=260))) == [("split", ["1"], 3, 2)]


def test_a_level_is_rewritten_in_commits_of_limited_size_and_resumed_after_the_last() -> None:
    table = lying(*level(4, 250, n9=300))
    plan = plan_split(MODEL, table, LIMITS)
    assert [len(step.nodes) for step in plan.steps if isinstance(step, ResizeBuckets)] == [4, 4, 4, 3, 1]
    assert all(step.bytes <= LIMITS.compaction.group_bytes for step in plan.steps if isinstance(step, ResizeBuckets))
    first = plan.steps[0]
    assert isinstance(first, ResizeBuckets)
    rest = [node for node in table.file_groups if node not in first.nodes]
    children = [node(5, i, 125) for i in (0, 1, 2, 3, 16, 17, 18, 19)]
    again = [
        step.nodes
        for step in plan_split(MODEL, lying(*rest, *children), LIMITS).steps
        if isinstance(step, ResizeBuckets)
    ]
    assert again == [step.nodes for step in plan.steps[1:] if isinstance(step, ResizeBuckets)]


def test_partitions_have_depths_of_their_own() -> None:
    """What is written next comes as deep as most of the table lies."""
    small = [node(1, i, 20, day="2024-01-01") for i in range(2)]
    large = [node(1, i, 500, day="2024-01-02") for i in range(2)]
    (step,) = plan_split(MODEL, lying(*small, *large), LIMITS).steps
    assert isinstance(step, ResizeBuckets)
    assert (step.nodes, step.depth, step.default_depth) == (tuple(large), 3, 3)
    many = [node(1, i, 120, day=f"2023-01-{day:02}") for i in range(2) for day in range(1, 31)]
    (step,) = plan_split(MODEL, lying(*many, *small, *large), LIMITS).steps
    assert isinstance(step, ResizeBuckets)
    assert (step.depth, step.default_depth) == (3, 1)


def test_a_node_whose_rows_share_a_hash_is_not_split_over_and_over() -> None:
    plan = plan_split(MODEL, lying(node(2, 1, 500), node(2, 0, 10), node(2, 2, 10)), LIMITS)
    assert plan.steps == ()
    (reason,) = [left.reason for left in plan.left if left.node.partition[0].value == "1"]
    assert "few values of the hash key" in reason
    assert "choose another `hash_key`" in reason
    assert moved(lying(node(2, 1, 500), node(3, 3, 1))) == [("split", ["1"], 4, 4)]
    assert moved(lying(node(0, 0, 500))) == [("split", ["0"], 2, 2)]


def test_there_are_no_more_nodes_than_can_be() -> None:
    plan = plan_split(MODEL, lying(*[node(16, i, 300) for i in range(2)], node(16, 2**15, 300)), LIMITS)
    assert plan.steps == ()
    assert "no more than 65536 nodes" in plan.left[0].reason


# Files of several depths


def test_files_of_several_depths_are_one_unit_that_lies_where_most_of_it_is() -> None:
    table = lying(node(1, 0, 10), node(2, 0, 100), node(2, 2, 60), node(1, 1, 50), depth=1)
    units = list_units(table, "id")
    assert units is not None
    assert [(unit.top, unit.depth, unit.spec, len(unit.file_groups), unit.is_mixed) for unit in units] == [
        (HashNode(1, 0), 2, 2, 3, True),
        (HashNode(1, 1), 1, 1, 1, False),
    ]
    assert units[0].largest == 105 * MIB
    assert list_bucket_counts(units) == (2, 4)
    assert compute_main_depth([(1, 5), (2, 5)]) == 2


def test_what_merges_write_into_a_split_node_goes_down_to_its_children_with_the_next_rewriting() -> None:
    table = lying(node(1, 0, *[1] * 20), node(2, 0, 100), node(2, 2, 60), node(1, 1, 50), depth=1)
    steps = plan_file_compaction(MODEL, TableState(), [table], "minor", LIMITS).steps
    (step,) = [step for step in steps if isinstance(step, RewriteFiles)]
    assert (step.way, step.spec, step.buckets, step.files) == ("join", 2, (2, 4), 20)
    assert len(step.nodes) == 3


def test_what_merges_write_below_a_node_that_was_not_split_comes_up_to_it() -> None:
    table = lying(node(1, 0, 100), node(2, 0, *[1] * 9), node(2, 2, *[1] * 9), node(1, 1, 50), depth=2)
    (step,) = plan_file_compaction(MODEL, TableState(), [table], "minor", LIMITS).steps
    assert isinstance(step, RewriteFiles)
    assert (step.spec, step.files, len(step.nodes)) == (1, 18, 3)


def test_nodes_of_different_depths_never_share_a_commit() -> None:
    table = lying(node(1, 0, *[1] * 20), node(2, 1, *[1] * 20), node(2, 3, *[1] * 20))
    steps = plan_file_compaction(MODEL, TableState(), [table], "minor", LIMITS).steps
    assert [(step.spec, len(step.nodes)) for step in steps if isinstance(step, RewriteFiles)] == [(1, 1), (2, 2)]


def test_nodes_that_files_of_another_depth_came_to_are_looked_at_once_more_and_then_no_more() -> None:
    """What is left apart would else be planned for ever: small files of nodes below a large file of the node above."""
    table = lying(node(0, 0, 100), *[node(5, i, 1) for i in range(32)])
    performed: list[CompactionStep] = []
    for _ in range(2):
        (step,) = plan_file_compaction(MODEL, TableState(), [table], "minor", LIMITS).steps
        performed.append(step)
        table = replace(table, finished_groups=frozenset(list_rewritten_groups(performed)))
    assert plan_file_compaction(MODEL, TableState(), [table], "minor", LIMITS).steps == ()


def test_nodes_that_were_written_under_their_own_spec_are_not_looked_at_again() -> None:
    table = lying(*[node(1, i, *[1] * 20) for i in range(2)])
    performed = plan_file_compaction(MODEL, TableState(), [table], "minor", LIMITS).steps
    assert list_rewritten_groups(performed) == {table.identify_group(node) for node in table.file_groups}


# Putting nodes together


def test_nodes_of_a_table_that_shrank_are_put_together_until_the_next_step_would_be_too_much() -> None:
    table = lying(*level(4, 3))
    ((direction, taken, depth, default),) = moved(table)
    assert (direction, len(taken), depth, default) == ("merge", 16, 2, 2)
    assert taken[:4] == ["0", "4", "8", "12"]
    assert moved(lying(*level(4, 9))) == []


def test_a_model_that_asks_for_nodes_keeps_them() -> None:
    assert moved(lying(*level(4, 3)), with_config(nodes=16)) == []
    assert moved(lying(*level(4, 3)), with_config(nodes=8))[0][2] == 3


def test_a_partition_is_put_together_alone_only_when_asked_for() -> None:
    """Unasked, all go to the depth that the largest needs: else each would be grown and split again."""
    small = [node(3, i, 1, day="2024-01-01") for i in range(8)]
    large = [node(3, i, 200, day="2024-01-02") for i in range(8)]
    table = lying(*small, *large)
    assert plan_resizes(table, "auto") == plan_resizes(table, "major") == []
    (step,) = plan_resizes(table, "full")
    assert (step.nodes, step.depth, step.default_depth) == (tuple(small), 0, 3)
    assert [len(step.nodes) for step in plan_split(MODEL, table, LIMITS).steps if isinstance(step, ResizeBuckets)] == [
        8
    ]
    middle = [node(3, i, 6, day=f"2024-02-0{day}") for i in range(8) for day in (1, 2)]
    more = [node(3, i, 1, day="2024-02-03") for i in range(8)]
    steps = plan_resizes(lying(*small, *large, *middle, *more), "full")
    assert [(step.depth, len(step.nodes)) for step in steps] == [(0, 16), (2, 16)]


def test_nodes_are_put_together_unasked_only_where_that_is_worth_a_commit() -> None:
    assert plan_resizes(lying(*level(4, 1)), "auto") == []
    assert len(plan_resizes(lying(*level(4, 1)), "major")) == 1
    assert len(plan_resizes(lying(*level(5, 1)), "auto")) == 1
    days = [node(5, i, 1, day=f"2024-01-{day:02}") for day in range(1, 31) for i in range(32)]
    more = [node(5, i, 3, day="2024-02-01") for i in range(32)]
    assert len(plan_resizes(lying(*days), "auto")) == 20
    assert plan_resizes(lying(*days, *more), "auto") == []
    assert len(plan_resizes(lying(*days, *more), "major")) > 0


def plan_resizes(table: TableFiles, mode: CompactionMode) -> list[ResizeBuckets]:
    return [
        step
        for step in plan_file_compaction(MODEL, TableState(), [table], mode, LIMITS).steps
        if isinstance(step, ResizeBuckets)
    ]


@pytest.mark.parametrize("mode", ["auto", "major", "full"])
def test_a_compaction_splits_first_and_does_nothing_else_to_a_node_that_splits(mode: CompactionMode) -> None:
    table = lying(node(1, 0, *[10] * 30), node(1, 1, *[1] * 60))
    steps = plan_file_compaction(MODEL, TableState(), [table], mode, LIMITS).steps
    assert [type(step) for step in steps] == [ResizeBuckets, RewriteFiles]
    assert [group for step in steps for group in getattr(step, "nodes", ())] == list(table.file_groups)


def test_a_minor_compaction_splits_nothing() -> None:
    assert plan_resizes(lying(*level(1, 300)), "minor") == []


# What can't be split


def test_specs_that_are_no_depths_of_one_tree_are_left_alone() -> None:
    other = FileGroup(9, (PartitionValue(Transform("identity", "region"), "eu", "string"),), (DataFile(MIB, 1),))
    for table in (
        lying(node(1, 0, 300), other),
        lying(node(1, 0, 300), replace(node(1, 1, 300), spec=5)),
        lying(node(1, 0, 300), node(2, 1, 300, day="2024-01-01")),
    ):
        assert list_units(table, "id") is None
        plan = plan_split(MODEL, table, LIMITS)
        assert plan.steps == ()
        assert {left.reason for left in plan.left} == {SIDE_BY_SIDE}


def test_a_table_without_nodes_in_powers_of_two_is_not_split() -> None:
    twelve = Transform("bucket", "id", 12)
    odd = TableFiles(
        TABLE, 7, (FileGroup(0, (PartitionValue(twelve, "3", "int"),), (DataFile(900 * MIB, 1),)),), MIB, 0, (twelve,)
    )
    whole = TableFiles(TABLE, 7, (FileGroup(0, (), (DataFile(900 * MIB, 1),)),), MIB)
    for table, key in ((odd, "id"), (whole, None), (lying(*level(1, 300)), "other")):
        assert not is_in_tree(table, key)
        plan = plan_split(with_config(hash_key=key), table, LIMITS)
        assert plan.steps == ()
        assert {left.reason for left in plan.left} == {NO_TREE}


def test_the_hash_key_is_found_in_any_case() -> None:
    assert is_in_tree(lying(*level(1, 300)), "ID")
    assert len(moved(lying(*level(1, 300)), with_config(hash_key="ID"))) == 1


def test_a_plan_tells_how_deep_and_why() -> None:
    plan = plan_split(MODEL, lying(*level(1, 10, n1=300)), LIMITS)
    assert describe_plan(plan, LIMITS.reports) == [
        "to do: split 1 node(s) of lake.dwd.orders, 314,572,800 bytes, to 4 buckets: up to 314,572,800 bytes in a "
        "node, more than 268,435,456",
        "left alone: lake.dwd.orders, bucket(2, id) = 0: 10,485,760 bytes, within 268,435,456, and too many to be put "
        "together",
    ]
    (step,) = plan_split(MODEL, lying(*level(4, 1)), LIMITS).steps
    assert describe_compaction(step) == (
        "merge 16 node(s) of lake.dwd.orders, 16,777,216 bytes, to 1 buckets: together they have at most "
        "16,777,216 bytes"
    )


# Properties

_trees = st.lists(
    st.tuples(
        st.integers(0, 4), st.integers(0, 15), st.sampled_from([0.1, 3, 20, 150, 300, 2000]), st.sampled_from("ab")
    ),
    min_size=1,
    max_size=14,
).map(lambda parts: {(day, depth, i % (1 << depth)): size for depth, i, size, day in parts})


def table_of(tree: dict[tuple[str, int, int], float]) -> TableFiles:
    return lying(*[node(depth, i, size, day=day) for (day, depth, i), size in tree.items()])


def performed(table: TableFiles) -> TableFiles:
    """What the first step of a plan makes of a table whose rows are spread evenly."""
    step = plan_split(MODEL, table, LIMITS).steps[0]
    assert isinstance(step, ResizeBuckets)
    sizes: dict[tuple[str, int], float] = {}
    for group in step.nodes:
        place = HashNode(group.spec, int(group.partition[-1].value or 0))
        goals = place.list_descendants(step.depth) if place.depth <= step.depth else (place.get_ancestor(step.depth),)
        for goal in goals:
            at = (group.partition[0].value or "", goal.index)
            sizes[at] = sizes.get(at, 0) + group.bytes / MIB / len(goals)
    kept = {
        (node.partition[0].value, node.spec, int(node.partition[-1].value or 0)): node
        for node in table.file_groups
        if node not in step.nodes
    }
    made = [node(step.depth, index, size, day=day) for (day, index), size in sizes.items()]
    assert not [
        group for group in made if (group.partition[0].value, group.spec, int(group.partition[-1].value or 0)) in kept
    ]
    return lying(*kept.values(), *made, depth=step.default_depth)


@settings(max_examples=40)
@given(tree=_trees)
def test_splitting_ends_with_every_node_within_its_limit_or_a_reason(tree: Any) -> None:
    table = table_of(tree)
    for _ in range(80):
        if not plan_split(MODEL, table, LIMITS).steps:
            break
        table = performed(table)
    plan = plan_split(MODEL, table, LIMITS)
    assert plan.steps == ()
    units = list_units(table, "id")
    assert units is not None
    reasons = {id(left.node): left.reason for left in plan.left}
    for unit in units:
        if unit.largest > LIMIT:
            assert all(
                "few values" in reasons[id(node)] or "no more than" in reasons[id(node)] for node in unit.file_groups
            )


@settings(max_examples=40)
@given(tree=_trees)
def test_no_two_steps_have_a_row_in_common(tree: Any) -> None:
    steps = plan_file_compaction(MODEL, TableState(), [table_of(tree)], "full", LIMITS).steps
    taken = [
        (group.partition[0], HashNode(group.spec, int(group.partition[-1].value or 0)), place)
        for place, step in enumerate(steps)
        for group in getattr(step, "nodes", ())
    ]
    for day, one, step in taken:
        for other_day, other, other_step in taken:
            is_apart = day != other_day or not (one.covers(other) or other.covers(one))
            assert step == other_step or is_apart


# Files from before the table had buckets


def unbucketed(*sizes: float, day: str | None = None) -> FileGroup:
    """Files of so many MiB under spec 99, which has no buckets."""
    days = () if day is None else (PartitionValue(DAY, day, "date"),)
    return FileGroup(99, days, tuple(DataFile(int(size * MIB), 1000, 0) for size in sizes))


def test_files_that_are_not_in_buckets_yet_share_a_unit_with_the_nodes_of_their_partition() -> None:
    table = lying(node(2, 1, 1, day="a"), unbucketed(100, day="a"), unbucketed(7, day="b"), depth=2)
    first, second = list_units(table, "id") or []
    assert (len(first.file_groups), first.depth, first.spec, first.is_mixed) == (2, 2, 2, True)
    assert (len(second.file_groups), second.depth, second.spec, second.is_mixed) == (1, 2, 2, True)
    assert first.largest == 26 * MIB


@pytest.mark.parametrize("depth", [0, 2])
def test_a_full_compaction_brings_them_into_buckets(depth: int) -> None:
    table = lying(unbucketed(100), depth=depth)
    plan = plan_file_compaction(MODEL, TableState(), [table], "full", LIMITS)
    (step,) = plan.steps
    assert isinstance(step, RewriteFiles)
    assert (step.spec, step.nodes) == (depth, table.file_groups)
    assert plan_file_compaction(MODEL, TableState(), [table], "auto", LIMITS).steps == ()


def test_they_are_split_where_a_bucket_would_be_too_large() -> None:
    table = lying(unbucketed(3000), depth=1)
    (step,) = plan_split(MODEL, table, LIMITS).steps
    assert isinstance(step, ResizeBuckets)
    assert step.depth > 1


def test_files_under_an_unrelated_spec_stay_outside() -> None:
    other = FileGroup(99, (PartitionValue(Transform("bucket", "id", 3), "1", "int"),), (DataFile(MIB, 10, 0),))
    assert list_units(lying(node(2, 1, 1), other, depth=2), "id") is None
    assert list_units(lying(node(2, 1, 1), unbucketed(1, day="a"), depth=2), "id") is None
