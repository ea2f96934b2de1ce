"""Hash nodes: the buckets of a table as nodes of a binary tree, in which the two children of a node divide its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
