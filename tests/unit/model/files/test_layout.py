"""The number of nodes of a new table, and what a base keeps of its layout."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.files.layout import (
    MAX_NODES,
    ROOT,
    HashNode,
    compute_row_group_bytes,
    find_cover,
    format_layout,
    format_of,
    to_hash_node,
)
from arctic_runtime.model.files.layout import compute_node_count as count_nodes
from arctic_runtime.model.properties import LAYOUT
from arctic_runtime.model.table import FormatVersion, ModelConfig, Transform
from arctic_runtime.thresholds import BucketThresholds, LayoutThresholds

BUCKETS = BucketThresholds()
LIMIT = 256 * 1024 * 1024
NODE_BYTES = LIMIT // 2
_sizes = st.integers(0, 2**44)
_cores = st.integers(0, 4096)


def node_count(size: int, cores: int) -> int:
    return count_nodes(size, cores, LIMIT, BUCKETS)


@settings(max_examples=40)
@given(_sizes, _cores)
def test_the_number_of_nodes_is_a_power_of_two_within_bounds(size: int, cores: int) -> None:
    nodes = node_count(size, cores)
    assert 1 <= nodes <= MAX_NODES
    assert nodes & (nodes - 1) == 0


@settings(max_examples=40)
@given(_sizes, _sizes, _cores)
def test_more_bytes_never_get_fewer_nodes(size: int, more: int, cores: int) -> None:
    assert node_count(size, cores) <= node_count(size + more, cores)


@settings(max_examples=40)
@given(st.integers(0, MAX_NODES * NODE_BYTES), _cores)
def test_no_node_is_born_larger_than_its_share(size: int, cores: int) -> None:
    assert size / node_count(size, cores) <= NODE_BYTES


@settings(max_examples=40)
@given(_sizes, _cores)
def test_cores_alone_never_cut_a_table_into_crumbs(size: int, cores: int) -> None:
    nodes = node_count(size, cores)
    assert nodes == 1 or size / nodes > BUCKETS.small_bucket_bytes / 2


@pytest.mark.parametrize(
    ("size", "cores", "nodes"),
    [
        (0, 8, 1),
        (BUCKETS.small_bucket_bytes - 1, 200, 1),
        (2 * BUCKETS.small_bucket_bytes, 200, 2),
        (NODE_BYTES, 4, 4),
        (10 * NODE_BYTES, 4, 16),
        (10**15, 4, MAX_NODES),
    ],
)
def test_small_tables_have_few_nodes_and_large_ones_enough(size: int, cores: int, nodes: int) -> None:
    assert node_count(size, cores) == nodes


def test_nodes_of_another_limit_are_as_many_as_keep_half_of_it() -> None:
    assert count_nodes(2**30, 1, 2**28, BUCKETS) == 8
    assert count_nodes(2**30, 1, 2**27, BUCKETS) == 16
    assert count_nodes(5, 1, 1, BUCKETS) == 8


def test_the_layout_that_a_base_keeps_is_written_as_it_always_was() -> None:
    """A base whose text differs would be laid out anew, so what is added later is only in it where it is set."""
    days = Transform("days", "at")
    config = ModelConfig(("id",), (days,), "id", ("at",), nodes=4, tblproperties={"b": "1", "a": "2"})
    assert format_layout(config) == (
        '{"partition_by":["days(at)"],"hash_key":"id","sort_key":["at"],"nodes":4,"tblproperties":{"a":"2","b":"1"}}'
    )


@pytest.mark.parametrize("version", get_args(FormatVersion))
def test_the_format_of_a_base_is_known_from_its_layout(version: FormatVersion) -> None:
    assert format_of({LAYOUT: format_layout(ModelConfig(("id",), format_version=version))}) == version


@settings(max_examples=40)
@given(_sizes)
def test_row_groups_are_a_small_part_of_a_table_and_neither_crumbs_nor_blocks(size: int) -> None:
    limits = LayoutThresholds()
    least, most = limits.least_row_group_bytes, limits.most_row_group_bytes
    row_group_bytes = compute_row_group_bytes(size, limits)
    assert least <= row_group_bytes <= most
    assert row_group_bytes == least or row_group_bytes * limits.row_group_share <= size


_nodes = st.integers(0, 6).flatmap(lambda depth: st.integers(0, (1 << depth) - 1).map(lambda i: HashNode(depth, i)))


def has_hash(node: HashNode, hashed: int) -> bool:
    return hashed & node.mask == node.index


@given(node=_nodes, hashed=st.integers(-(2**31), 2**31 - 1))
def test_the_two_children_of_a_node_share_its_rows_between_them(node: HashNode, hashed: int) -> None:
    one, other = node.children
    assert [has_hash(one, hashed), has_hash(other, hashed)].count(True) == has_hash(node, hashed)
    assert (one.parent, other.parent) == (node, node)
    assert (one.sibling, other.sibling) == (other, one)


@given(one=_nodes, other=_nodes)
def test_two_nodes_lie_one_in_the_other_or_apart(one: HashNode, other: HashNode) -> None:
    """Told by the rows: every hash of seven bits."""
    mine, its = ({h for h in range(128) if has_hash(node, h)} for node in (one, other))
    assert one.covers(other) == (its <= mine)
    assert (one.covers(other) or other.covers(one)) == bool(mine & its)
    assert mine <= its or its <= mine or not mine & its


@given(node=_nodes, depth=st.integers(0, 6))
def test_a_node_is_cut_into_those_that_it_is_above_of(node: HashNode, depth: int) -> None:
    if depth < node.depth:
        assert node.get_ancestor(depth).covers(node)
        with pytest.raises(ValueError, match="is not above"):
            node.list_descendants(depth)
    else:
        below = node.list_descendants(depth)
        assert len(below) == 1 << (depth - node.depth)
        assert {other.get_ancestor(node.depth) for other in below} == {node}
        assert sorted(h for other in below for h in range(64) if has_hash(other, h)) == [
            h for h in range(64) if has_hash(node, h)
        ]


@settings(max_examples=60)
@given(nodes=st.lists(_nodes, max_size=12))
def test_a_covering_set_holds_every_row_of_the_nodes_once(nodes: list[HashNode]) -> None:
    found = find_cover(nodes)
    assert set(found) <= set(nodes)
    assert sorted(node for members in found.values() for node in members) == sorted(set(nodes))
    for hashed in range(64):
        tops = [top for top in found if has_hash(top, hashed)]
        assert len(tops) == any(has_hash(node, hashed) for node in nodes)
        for top in tops:
            assert all(top.covers(node) for node in found[top])
            assert [other for other in found if top.covers(other)] == [top]


def test_the_root_has_neither_parent_nor_sibling_and_holds_everything() -> None:
    assert (ROOT.parent, ROOT.sibling, ROOT.mask) == (None, None, 0)
    assert has_hash(ROOT, -1)
    assert ROOT.children == (HashNode(1, 0), HashNode(1, 1))


@pytest.mark.parametrize(("depth", "index"), [(0, 1), (3, 8), (3, -1), (-1, 0)])
def test_an_index_with_more_bits_than_its_depth_is_no_node(depth: int, index: int) -> None:
    with pytest.raises(ValueError, match="an index has"):
        HashNode(depth, index)


def test_buckets_of_another_number_than_a_power_of_two_are_no_nodes_of_a_tree() -> None:
    assert to_hash_node(12, 3) is None
    assert to_hash_node(1, 0) == ROOT
    assert to_hash_node(64, 63) == HashNode(6, 63)


def test_a_node_is_described_by_its_bucket_and_the_number_of_buckets() -> None:
    assert str(HashNode(5, 19)) == "19/32"
