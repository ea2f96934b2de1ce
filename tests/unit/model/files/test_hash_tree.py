"""The hash tree: how its nodes lie to one another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.files.hash_tree import ROOT, HashNode, find_cover, to_hash_node

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
