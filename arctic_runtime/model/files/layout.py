"""Layout of a base table: sizes, the layout stored in its properties, and its buckets as nodes of a binary tree.

The two children of a hash node divide its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from arctic_runtime.model.properties import LAYOUT
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.thresholds import BucketThresholds, LayoutThresholds

MAX_DEPTH = 16
"""Maximum depth of the trees that arctic writes; tables of other writers may have more buckets."""


@dataclass(frozen=True, order=True)
class HashNode:
    """Set of the rows whose hash ends in the `depth` bits of `index`; the root has depth 0 and contains all rows.

    It is bucket number `index` of Iceberg's transform `bucket(2^depth, …)`. Raises ValueError if `index` has more than
    `depth` bits.
    """

    depth: int
    index: int

    def __post_init__(self) -> None:
        if self.depth < 0 or not 0 <= self.index < 1 << self.depth:
            raise ValueError(f"node {self.index} of depth {self.depth}: an index has {self.depth} bits")

    @property
    def buckets(self) -> int:
        """Number of nodes at this node's depth: 2^depth."""
        return 1 << self.depth

    @property
    def mask(self) -> int:
        return self.buckets - 1

    @property
    def children(self) -> tuple[HashNode, HashNode]:
        """The two nodes of the next depth, which divide this node's rows."""
        return HashNode(self.depth + 1, self.index), HashNode(self.depth + 1, self.index + self.buckets)

    @property
    def parent(self) -> HashNode | None:
        return self.get_ancestor(self.depth - 1) if self.depth else None

    @property
    def sibling(self) -> HashNode | None:
        """The other child of this node's parent; None for the root."""
        return HashNode(self.depth, self.index ^ (self.buckets >> 1)) if self.depth else None

    def get_ancestor(self, depth: int) -> HashNode:
        """Returns the node at `depth` that contains all rows of this node.

        Raises ValueError if `depth` is larger than this node's depth.
        """
        if depth > self.depth:
            raise ValueError(f"node {self.index} of depth {self.depth} is not below depth {depth}")
        return HashNode(depth, self.index & ((1 << depth) - 1))

    def list_descendants(self, depth: int) -> tuple[HashNode, ...]:
        """Lists the nodes at `depth` that divide this node's rows.

        Raises ValueError if `depth` is smaller than this node's depth.
        """
        if depth < self.depth:
            raise ValueError(f"node {self.index} of depth {self.depth} is not above depth {depth}")
        return tuple(HashNode(depth, self.index + (i << self.depth)) for i in range(1 << (depth - self.depth)))

    def covers(self, other: HashNode) -> bool:
        """Whether this node contains all rows of `other`."""
        return self.depth <= other.depth and other.index & self.mask == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.buckets}"


ROOT = HashNode(0, 0)


def to_hash_node(buckets: int, bucket: int) -> HashNode | None:
    """Returns the hash node of Iceberg's bucket number `bucket` of `buckets`; None if `buckets` is no power of two."""
    return HashNode(buckets.bit_length() - 1, bucket) if buckets > 0 and buckets & (buckets - 1) == 0 else None


def find_cover(nodes: Iterable[HashNode]) -> dict[HashNode, list[HashNode]]:
    """Groups `nodes` by their topmost nodes: those that are below no other node in `nodes`.

    Maps each topmost node to a list of itself and the nodes below it. Two topmost nodes have no row in common, so they
    can be processed independently.
    """
    cover: dict[HashNode, list[HashNode]] = {}
    depths: list[int] = []
    for node in sorted(set(nodes), key=lambda node: (node.depth, node.index)):
        root = next((top for top in map(node.get_ancestor, depths) if top in cover), node)
        if root is node and node.depth not in depths:
            depths.append(node.depth)
        cover.setdefault(root, []).append(node)
    return cover


MAX_NODES = 1 << MAX_DEPTH
NEWEST_FORMAT = 3

TARGET_PROPERTY = "write.target-file-size-bytes"
"""Iceberg's property for the target size of data files."""

ROW_GROUP_PROPERTY = "write.parquet.row-group-size-bytes"
"""Iceberg's property for the size of row groups."""

KEPT_METADATA = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Iceberg's properties by which each commit to a table deletes all but the newest metadata files."""


def list_missing_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of `KEPT_METADATA` for properties that a table's `properties` do not set to any value."""
    return {key: value for key, value in KEPT_METADATA.items() if key not in properties}


def compute_node_count(first_load_bytes: int, parallelism: int, node_bytes: int, thresholds: BucketThresholds) -> int:
    """Computes the number of buckets of a new base table, a power of two and at most `MAX_NODES`.

    `first_load_bytes` are the bytes of the first commit of change rows, and `parallelism` is the number of tasks that
    can run at the same time. There are enough buckets for all these tasks, but not so many that buckets are smaller
    than a threshold; and enough that a bucket has at most half of `node_bytes`, the size above which it would be split.
    """
    by_cores = min(max(1, parallelism), first_load_bytes // thresholds.small_bucket_bytes)
    by_size = -(-first_load_bytes // max(1, node_bytes // 2))
    return min(MAX_NODES, _next_power_of_two(max(1, by_cores, by_size)))


def compute_row_group_bytes(first_load_bytes: int, thresholds: LayoutThresholds) -> int:
    """Computes the size of Parquet row groups of a new base table, in uncompressed bytes.

    It is a share of `first_load_bytes`, the bytes of the first commit of change rows, within limits.
    """
    share = first_load_bytes // thresholds.row_group_share
    return min(thresholds.most_row_group_bytes, max(thresholds.least_row_group_bytes, share))


def format_layout(config: ModelConfig) -> str:
    """Formats the layout settings of a base table as JSON, which is stored in the table's properties.

    `format_version`, a later addition, is included only if it is not the default, so that the layouts of old tables
    still match.
    """
    parts: dict[str, Any] = {
        "partition_by": [str(transform) for transform in config.partition_by],
        "hash_key": config.hash_key,
        "sort_key": config.sort_key,
        "nodes": config.nodes or "auto",
        "tblproperties": dict(sorted(config.tblproperties.items())),
    }
    if config.format_version != NEWEST_FORMAT:
        parts["format_version"] = config.format_version
    return json.dumps(parts, separators=(",", ":"))


def is_laid_out(config: ModelConfig, properties: Mapping[str, str]) -> bool:
    """Whether the layout in a base table's `properties` is the configured one; True if no layout is stored there."""
    return properties.get(LAYOUT, format_layout(config)) == format_layout(config)


def apply_configured_layout(model: Model) -> Model:
    """Returns the model with `on_configuration_change: apply`, so that its base table gets the configured layout."""
    return replace(model, config=replace(model.config, on_configuration_change="apply"))


def format_of(properties: Mapping[str, str]) -> int:
    """Reads Iceberg's format version from the layout in a base table's `properties`; `NEWEST_FORMAT` if it has none."""
    return int(json.loads(properties.get(LAYOUT, "{}")).get("format_version", NEWEST_FORMAT))


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


@dataclass(frozen=True)
class Placement:
    """Bucketing of a table's files by a hash of one column."""

    column: str = ""
    """The column; empty if the table has no buckets."""

    nodes: tuple[int, ...] = ()
    """The bucket counts in use; there is one, unless some buckets were split or merged."""

    partitions: tuple[str, ...] = ()
    """The other columns by which the table is partitioned."""

    otherwise: str = ""
    """Reason for which the table can't be joined bucket by bucket; empty if it can.

    The reason is in words that follow the table's name.
    """


NOT_BUCKETED = Placement(otherwise="is not bucketed")
