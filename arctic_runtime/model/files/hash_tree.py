"""Nodes of a hash tree: the buckets of a power of two, and how those of several depths lie to one another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_DEPTH = 16
"""Of the trees that are made here; tables of others may be cut finer."""


@dataclass(frozen=True, order=True)
class HashNode:
    """The rows whose hash ends in the bits of `index`, `depth` bits long; the root, with no bits, holds all.

    It is bucket `index` of Iceberg's `bucket(2^depth, …)`. Raises ValueError for an index that has more bits.
    """

    depth: int
    index: int

    def __post_init__(self) -> None:
        if self.depth < 0 or not 0 <= self.index < 1 << self.depth:
            raise ValueError(f"node {self.index} of depth {self.depth}: an index has {self.depth} bits")

    @property
    def buckets(self) -> int:
        """Number of nodes of this depth."""
        return 1 << self.depth

    @property
    def mask(self) -> int:
        return self.buckets - 1

    @property
    def children(self) -> tuple[HashNode, HashNode]:
        """The two that share its rows."""
        return HashNode(self.depth + 1, self.index), HashNode(self.depth + 1, self.index + self.buckets)

    @property
    def parent(self) -> HashNode | None:
        return self.get_ancestor(self.depth - 1) if self.depth else None

    @property
    def sibling(self) -> HashNode | None:
        """The other child of its parent."""
        return HashNode(self.depth, self.index ^ (self.buckets >> 1)) if self.depth else None

    def get_ancestor(self, depth: int) -> HashNode:
        """The node of a smaller depth, or of the same, that has all its rows."""
        if depth > self.depth:
            raise ValueError(f"node {self.index} of depth {self.depth} is not below depth {depth}")
        return HashNode(depth, self.index & ((1 << depth) - 1))

    def list_descendants(self, depth: int) -> tuple[HashNode, ...]:
        """The nodes of a greater depth, or of the same, that share its rows."""
        if depth < self.depth:
            raise ValueError(f"node {self.index} of depth {self.depth} is not above depth {depth}")
        return tuple(HashNode(depth, self.index + (i << self.depth)) for i in range(1 << (depth - self.depth)))

    def covers(self, other: HashNode) -> bool:
        """Whether every row of the other one is its own too."""
        return self.depth <= other.depth and other.index & self.mask == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.buckets}"


ROOT = HashNode(0, 0)


def to_hash_node(buckets: int, bucket: int) -> HashNode | None:
    """The node that a bucket of Iceberg's is; None if the number of buckets is no power of two."""
    return HashNode(buckets.bit_length() - 1, bucket) if buckets > 0 and buckets & (buckets - 1) == 0 else None


def find_cover(nodes: Iterable[HashNode]) -> dict[HashNode, list[HashNode]]:
    """The fewest of the nodes that cover all of them, each with those that it covers, itself among them.

    No two that are returned meet, so what is done to the one and to the other has no row in common.
    """
    cover: dict[HashNode, list[HashNode]] = {}
    depths: list[int] = []
    for node in sorted(set(nodes), key=lambda node: (node.depth, node.index)):
        root = next((top for top in map(node.get_ancestor, depths) if top in cover), node)
        if root is node and node.depth not in depths:
            depths.append(node.depth)
        cover.setdefault(root, []).append(node)
    return cover
