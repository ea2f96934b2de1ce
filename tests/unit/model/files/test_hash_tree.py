"""The hash tree, and the one hash that places rows in it as Iceberg does."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types
from pyiceberg.transforms import BucketTransform

from arctic_runtime.model.files.hash_tree import (
    ROOT,
    HashNode,
    find_cover,
    find_node,
    hash_for_bucket,
    select_intersecting,
    to_hash_node,
)

_WEST = dt.timezone(dt.timedelta(hours=-8))


@pytest.mark.parametrize(
    ("value", "hashed"),
    [
        (34, 2017239379),
        (Decimal("14.20"), -500754589),
        (dt.date(2017, 11, 16), -653330422),
        (dt.datetime(2017, 11, 16, 22, 31, 8), -2047944441),
        (dt.datetime(2017, 11, 16, 14, 31, 8, tzinfo=_WEST), -2047944441),
        (dt.datetime(2017, 11, 16, 22, 31, 8, 1), -1207196810),
        ("iceberg", 1210000089),
        (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
        (b"\x00\x01\x02\x03", -188683207),
    ],
    ids=repr,
)
def test_values_hash_as_the_specification_of_iceberg_says(value: Any, hashed: int) -> None:
    assert hash_for_bucket(value) == hashed


@pytest.mark.parametrize("value", [True, 1.5, None, dt.time(1)], ids=repr)
def test_what_iceberg_has_no_buckets_of_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="no buckets of"):
        hash_for_bucket(value)


_moments = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
_values = st.one_of(
    st.tuples(st.just(types.IntegerType()), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(types.LongType()), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(types.StringType()), st.text(st.characters(exclude_categories=["Cs"]))),
    st.tuples(st.just(types.BinaryType()), st.binary()),
    st.tuples(st.just(types.UUIDType()), st.uuids()),
    st.tuples(st.just(types.DateType()), st.dates()),
    st.tuples(st.just(types.TimestampType()), _moments),
    st.tuples(st.just(types.TimestamptzType()), st.datetimes(timezones=st.just(_WEST))),
    st.tuples(
        st.just(types.DecimalType(38, 4)),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-4")),
    ),
)


@settings(max_examples=150)
@given(typed=_values, depth=st.integers(0, 20))
def test_every_value_lies_in_the_bucket_where_iceberg_puts_it(typed: tuple[Any, Any], depth: int) -> None:
    """Another implementation of the same transform says the same, of negative hashes too."""
    kind, value = typed
    bucket = BucketTransform(1 << depth).transform(kind)(_as_stored(kind, value))
    assert find_node(hash_for_bucket(value), depth) == to_hash_node(1 << depth, bucket)
    assert find_node(hash_for_bucket(value), depth).has_hash(hash_for_bucket(value))


def _as_stored(kind: types.IcebergType, value: Any) -> Any:
    """Dates and times as pyiceberg's transform takes them."""
    if isinstance(kind, types.DateType):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, dt.datetime):
        epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc if value.tzinfo else None)
        return (value - epoch) // dt.timedelta(microseconds=1)
    return value


# The tree

_nodes = st.integers(0, 6).flatmap(lambda depth: st.integers(0, (1 << depth) - 1).map(lambda i: HashNode(depth, i)))


@given(node=_nodes, hashed=st.integers(-(2**31), 2**31 - 1))
def test_the_two_children_of_a_node_share_its_rows_between_them(node: HashNode, hashed: int) -> None:
    one, other = node.children
    assert [one.has_hash(hashed), other.has_hash(hashed)].count(True) == node.has_hash(hashed)
    assert (one.parent, other.parent) == (node, node)
    assert (one.sibling, other.sibling) == (other, one)


@given(one=_nodes, other=_nodes)
def test_two_nodes_lie_one_in_the_other_or_apart(one: HashNode, other: HashNode) -> None:
    """Told by the rows: every hash of seven bits."""
    mine, its = ({h for h in range(128) if node.has_hash(h)} for node in (one, other))
    assert one.covers(other) == (its <= mine)
    assert one.intersects(other) == bool(mine & its)
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
        assert sorted(h for other in below for h in range(64) if other.has_hash(h)) == [
            h for h in range(64) if node.has_hash(h)
        ]


@settings(max_examples=60)
@given(nodes=st.lists(_nodes, max_size=12))
def test_a_covering_set_holds_every_row_of_the_nodes_once(nodes: list[HashNode]) -> None:
    found = find_cover(nodes)
    assert set(found) <= set(nodes)
    assert sorted(node for members in found.values() for node in members) == sorted(set(nodes))
    for hashed in range(64):
        tops = [top for top in found if top.has_hash(hashed)]
        assert len(tops) == any(node.has_hash(hashed) for node in nodes)
        for top in tops:
            assert all(top.covers(node) for node in found[top])
            assert select_intersecting(top, found) == [top]


def test_nodes_of_one_path_meet_and_others_do_not() -> None:
    nodes = [HashNode(4, 3), HashNode(4, 5), HashNode(5, 19), HashNode(3, 3), ROOT]
    assert select_intersecting(HashNode(4, 3), nodes) == [HashNode(4, 3), HashNode(5, 19), HashNode(3, 3), ROOT]


def test_the_root_has_neither_parent_nor_sibling_and_holds_everything() -> None:
    assert (ROOT.parent, ROOT.sibling, ROOT.mask) == (None, None, 0)
    assert ROOT.has_hash(-1)
    assert ROOT.children == (HashNode(1, 0), HashNode(1, 1))


@pytest.mark.parametrize(("depth", "index"), [(0, 1), (3, 8), (3, -1), (-1, 0)])
def test_an_index_with_more_bits_than_its_depth_is_no_node(depth: int, index: int) -> None:
    with pytest.raises(ValueError, match="an index has"):
        HashNode(depth, index)


def test_buckets_of_another_number_than_a_power_of_two_are_no_nodes_of_a_tree() -> None:
    assert to_hash_node(12, 3) is None
    assert to_hash_node(1, 0) == ROOT
    assert to_hash_node(64, 63) == HashNode(6, 63)


def test_a_node_is_told_by_its_bucket_and_how_many_there_are() -> None:
    assert str(HashNode(5, 19)) == "19/32"
