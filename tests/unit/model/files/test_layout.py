"""The number of nodes of a new table, and what a base keeps of its layout."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.files.layout import MAX_NODES, compute_row_group_bytes, format_layout, format_of
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
