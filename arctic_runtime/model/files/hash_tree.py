"""Nodes of a hash tree: the buckets of a power of two, and how those of several depths lie to one another."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal

import mmh3

MAX_DEPTH = 16
"""Of the trees that are made here; tables of others may be cut finer."""

KeyValue = bool | int | str | bytes | Decimal | datetime.date | datetime.datetime | uuid.UUID

_EPOCH_DAY = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


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

    def intersects(self, other: HashNode) -> bool:
        """Whether the two can have a row in common: nodes of a tree lie one in the other or apart."""
        return self.covers(other) or other.covers(self)

    def has_hash(self, hashed: int) -> bool:
        return hashed & self.mask == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.buckets}"


ROOT = HashNode(0, 0)


def to_hash_node(buckets: int, bucket: int) -> HashNode | None:
    """The node that a bucket of Iceberg's is; None if the number of buckets is no power of two."""
    return HashNode(buckets.bit_length() - 1, bucket) if buckets > 0 and buckets & (buckets - 1) == 0 else None


def find_node(hashed: int, depth: int) -> HashNode:
    """The node of this depth that rows with this hash are in, negative ones too."""
    return HashNode(depth, hashed & ((1 << depth) - 1))


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


def select_intersecting(node: HashNode, nodes: Collection[HashNode]) -> list[HashNode]:
    """Those of the nodes that can have a row of `node`."""
    return [other for other in nodes if node.intersects(other)]


def hash_for_bucket(value: KeyValue) -> int:
    """The 32 bits, with a sign, that Iceberg's `bucket` counts modulo; of a composite key that of its `hash_key`.

    A decimal has as many digits behind its point as its type has. A date and time with a zone is a point in time,
    one without is taken as it stands. Source: the Iceberg table specification, appendix B. Raises TypeError for a
    value that can't be bucketed.
    """
    return mmh3.hash(_to_hash_bytes(value))


def _to_hash_bytes(value: KeyValue) -> bytes:
    match value:
        case bool() | float():
            raise TypeError(f"Iceberg has no buckets of {type(value).__name__} values")
        case int():
            return value.to_bytes(8, "little", signed=True)
        case str():
            return value.encode()
        case bytes():
            return value
        case Decimal():
            return _to_unscaled_bytes(value)
        case datetime.datetime():
            return _to_hash_bytes((_to_utc_without_zone(value) - _EPOCH) // _MICROSECOND)
        case datetime.date():
            return _to_hash_bytes((value - _EPOCH_DAY).days)
        case uuid.UUID():
            return value.bytes
        case _:
            raise TypeError(f"Iceberg has no buckets of {type(value).__name__} values")


def _to_utc_without_zone(value: datetime.datetime) -> datetime.datetime:
    return value if value.tzinfo is None else value.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def _to_unscaled_bytes(value: Decimal) -> bytes:
    """The digits as one number in as few bytes as hold it with its sign, the highest first."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
