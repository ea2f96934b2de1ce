"""The tree of a partition in lines: what lies where, summed up where it is too much to show."""

from __future__ import annotations

import pytest
from pyiceberg.transforms import IdentityTransform

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.compaction import DataFile, FileGroup, PartitionValue, TableFiles
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.operations import looking as drawing
from arctic_runtime.operations.looking import Drawn, Tree, describe_tree, read_tree
from arctic_runtime.thresholds import ReportThresholds

BASE = {"arctic_kind": "base"}
NOTE = Transform("identity", "note")


def model(name: str = "t") -> Model:
    return Model(TableName("lake", "dwd", name), "", ModelConfig(("id",), hash_key="id"))


def draw_tree(*nodes: tuple[int, int, int, int, int], partitions: int = 1) -> list[str]:
    return describe_tree(Tree("m", "all rows", partitions, tuple(Drawn(*node) for node in nodes)), ReportThresholds())


def test_a_tree_is_drawn_with_the_bytes_and_files_below_each_node() -> None:
    assert draw_tree(
        (0, 0, 5000, 6, 0), (1, 0, 3000, 4, 1), (1, 1, 2000, 2, 2), (2, 0, 1000, 2, 2), (2, 2, 500, 1, 1), partitions=3
    ) == [
        "  nodes of all rows, one of 3 partitions: 2 level(s) below the root",
        "  0/1: 5,000 bytes in 6 file(s)",
        "  ├─ 0/2: 3,000 bytes in 4 file(s), 1 of them not below it",
        "  │  ├─ 0/4: 1,000 bytes in 2 file(s)",
        "  │  └─ 2/4: 500 bytes in 1 file(s)",
        "  └─ 1/2: 2,000 bytes in 2 file(s)",
    ]


def test_a_table_without_nodes_is_a_root() -> None:
    assert draw_tree((0, 0, 70, 1, 1)) == [
        "  nodes of all rows: 0 level(s) below the root",
        "  0/1: 70 bytes in 1 file(s)",
    ]


def test_what_is_too_deep_to_show_is_summed_up() -> None:
    lines = draw_tree(
        *[(depth, index, 8 >> depth, 8 >> depth, 0) for depth in range(10) for index in range(1 << depth)]
    )
    assert len(lines) == 1 + 2**6 - 1
    assert len(lines) - 1 <= ReportThresholds().tree_lines
    assert lines[0] == "  nodes of all rows: 9 level(s) below the root"


def test_the_largest_partition_is_drawn_or_the_one_that_is_named(
    writing, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = writing.warehouse(tmp_path)
    assert read_tree(made.reader, model()) is None
    made.create("t", **BASE)
    made.append("t", [(1, "a")])
    nodes = tuple(
        FileGroup(
            bounds,
            (PartitionValue(NOTE, note, "string"), PartitionValue(Transform("bucket", "id", 1 << bounds), "1", "int")),
            files,
        )
        for bounds, note, files in (
            (1, "a", (DataFile(5, 1),)),
            (2, "a", (DataFile(7, 1), DataFile(8, 1))),
            (2, "it's", (DataFile(9, 1),)),
        )
    )
    monkeypatch.setattr(drawing, "observe_files", lambda *_: TableFiles(model().table, 1, nodes, 1))
    largest = read_tree(made.reader, model())
    assert largest == Tree(
        "lake.dwd.t", "note = a", 2, (Drawn(0, 0, 20, 3, 0), Drawn(1, 1, 20, 3, 1), Drawn(2, 1, 15, 2, 2))
    )
    named = read_tree(made.reader, model(), "note = it's")
    assert named is not None
    assert (named.partition, [node.bytes for node in named.nodes]) == ("note = it's", [9, 9, 9])
    with pytest.raises(
        ConfigError, match=r"no partition 'note = b' \(did you mean 'note = a'\?\); it has note = a, note"
    ):
        read_tree(made.reader, model(), "note = b")


def test_files_that_lie_in_no_tree_are_not_drawn(writing, tmp_path) -> None:
    made = writing.warehouse(tmp_path)
    made.create("t", **BASE)
    made.append("t", [(1, "a")])
    with made.load("t").update_spec() as spec:
        spec.add_field("note", IdentityTransform())
    made.append("t", [(2, "a")])
    with pytest.raises(ConfigError, match="side by side"):
        read_tree(made.reader, model())
