"""Arranges the file groups of a table as hash trees, one for each partition.

A partition may have file groups of several depths, whose hash ranges then overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from arctic_runtime.model.files.compaction import DataFile, FileGroup, PartitionValue, TableFiles
from arctic_runtime.model.files.layout import ROOT, HashNode, find_cover, to_hash_node
from arctic_runtime.model.table import Transform

Partition = tuple[PartitionValue, ...]


@dataclass(frozen=True)
class NewFiles:
    """Partition spec of new files of a table: its id, and the depth of its buckets in the hash tree."""

    spec: int
    depth: int


@dataclass(frozen=True)
class CompactionUnit:
    """File groups of one partition whose hash ranges overlap; no other unit has rows of the same keys.

    `hash_nodes` are the hash nodes of the `file_groups`, in the same order. `top` is the hash node that contains
    all of these. Most units have one file group. A unit has several if merges, which write files of one depth to all
    partitions, have added files to a partition with buckets of another depth.
    """

    partition: Partition
    top: HashNode
    file_groups: tuple[FileGroup, ...]
    hash_nodes: tuple[HashNode, ...]
    goal: NewFiles | None = None
    """The spec under which a rewrite places files that are not in buckets yet; None if all files are in buckets."""

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        return (
            self.file_groups[0].files
            if len(self.file_groups) == 1
            else tuple(chain.from_iterable(n.files for n in self.file_groups))
        )

    @cached_property
    def bytes(self) -> int:
        return sum(node.bytes for node in self.file_groups)

    @property
    def deleted_share(self) -> float:
        """Share of the rows in the unit's files that are marked as deleted, from 0 to 1."""
        return sum(file.deleted for file in self.files) / max(1, sum(file.rows for file in self.files))

    @cached_property
    def depth(self) -> int:
        """Depth of the hash tree that has most bytes of the unit; of two with as many bytes, the deeper one.

        If some files are not in buckets yet, the depth at which a rewrite places them.
        """
        if self.goal is not None:
            return self.goal.depth
        if len(self.file_groups) == 1:
            return self.top.depth
        return compute_main_depth(
            (place.depth, node.bytes) for place, node in zip(self.hash_nodes, self.file_groups, strict=True)
        )

    @property
    def spec(self) -> int:
        """Id of the partition spec of the unit's file groups at `depth`."""
        if self.goal is not None:
            return self.goal.spec
        return next(
            node.spec
            for place, node in zip(self.hash_nodes, self.file_groups, strict=True)
            if place.depth == self.depth
        )

    @property
    def is_mixed(self) -> bool:
        """Whether the unit has files at different depths of the hash tree, or files that are not in buckets yet."""
        return len(self.file_groups) > 1 or self.goal is not None

    @cached_property
    def largest(self) -> int:
        """Bytes of the unit's largest bucket at `depth`, with an even share of the bytes of file groups above it."""
        if len(self.file_groups) == 1 and self.goal is None:
            return self.bytes
        spread, own = 0, {place: 0 for place in self.hash_nodes if place.depth == self.depth}
        for place, node in zip(self.hash_nodes, self.file_groups, strict=True):
            if place.depth < self.depth:
                spread += node.bytes >> (self.depth - place.depth)
            else:
                at = place.get_ancestor(self.depth)
                own[at] = own.get(at, 0) + node.bytes
        return max(own.values(), default=0) + spread


def compute_main_depth(sizes: Iterable[tuple[int, int]]) -> int:
    """Returns the depth with most bytes, from pairs of depth and bytes; of two with as many bytes, the deeper one."""
    totals: dict[int, int] = {}
    for depth, size in sizes:
        totals[depth] = totals.get(depth, 0) + size
    return max(totals, key=lambda depth: (totals[depth], depth))


def list_units(table: TableFiles, hash_key: str | None) -> list[CompactionUnit] | None:
    """Divides the file groups of a table into units.

    None if the table has several partition specs that differ in more than their buckets of `hash_key`. If it has only
    one spec, each file group is a unit of its own, whatever the spec is.
    """
    goal = _find_new_files(table, hash_key)
    placed = [_find_tree_position(node, hash_key, goal) for node in table.file_groups]
    if len({node.spec for node in table.file_groups}) <= 1:
        pairs = zip(table.file_groups, placed, strict=True)
        return [
            _build_single_unit(node, placement, None if _is_in_bucket(node, hash_key) else goal)
            for node, placement in pairs
        ]
    trees: dict[Partition, list[tuple[HashNode, FileGroup]]] = {}
    kinds: set[tuple[Transform, ...]] = set()
    specs: dict[int, int] = {}
    for node, placement in zip(table.file_groups, placed, strict=True):
        if placement is None:
            return None
        partition, place = placement
        kinds.add(tuple(value.transform for value in partition))
        # Two specs of the same depth differ in something that the values don't show; arctic makes no such specs.
        is_other = _is_in_bucket(node, hash_key) and specs.setdefault(place.depth, node.spec) != node.spec
        if len(kinds) > 1 or is_other:
            return None
        trees.setdefault(partition, []).append((place, node))
    units = (_build_units(partition, nodes, hash_key, goal) for partition, nodes in trees.items())
    return list(chain.from_iterable(units))


def list_bucket_counts(units: Sequence[CompactionUnit]) -> tuple[int, ...]:
    """Lists the distinct bucket counts in use in the files of a table, sorted."""
    return tuple(sorted({place.buckets for unit in units for place in unit.hash_nodes}))


def is_in_tree(table: TableFiles, hash_key: str | None) -> bool:
    """Whether the table's default spec and all its files have buckets of the hash key, in numbers of a power of two.

    Files from before the table had buckets count as well. Otherwise its buckets can't be split and merged.
    """
    goal = _find_new_files(table, hash_key)
    return goal is not None and all(_find_tree_position(node, hash_key, goal) is not None for node in table.file_groups)


def _find_new_files(table: TableFiles, hash_key: str | None) -> NewFiles | None:
    """Returns the spec of the table's new files; None if it has no buckets of the hash key in a power of two."""
    for transform in table.transforms:
        place = to_hash_node(transform.parameter or 0, 0) if transform.is_bucket_of(hash_key) else None
        if place is not None:
            return NewFiles(table.spec, place.depth)
    return None


def _is_in_bucket(node: FileGroup, hash_key: str | None) -> bool:
    return any(value.transform.is_bucket_of(hash_key) for value in node.partition)


def _build_single_unit(
    node: FileGroup, placement: tuple[Partition, HashNode] | None, goal: NewFiles | None
) -> CompactionUnit:
    partition, place = placement or (node.partition, ROOT)
    return CompactionUnit(partition, place, (node,), (place,), goal)


def _build_units(
    partition: Partition,
    nodes: Sequence[tuple[HashNode, FileGroup]],
    hash_key: str | None,
    goal: NewFiles | None,
) -> Iterator[CompactionUnit]:
    for top, places in find_cover(place for place, _ in nodes).items():
        inside = [(place, node) for place, node in nodes if place in places]
        is_outside = any(not _is_in_bucket(node, hash_key) for _, node in inside)
        groups, hash_nodes = tuple(node for _, node in inside), tuple(place for place, _ in inside)
        yield CompactionUnit(partition, top, groups, hash_nodes, goal if is_outside else None)


def _find_tree_position(
    node: FileGroup, hash_key: str | None, goal: NewFiles | None
) -> tuple[Partition, HashNode] | None:
    """Splits the partition of a file group into its values without the bucket, and the bucket as a hash node.

    A file group from before the table had buckets, with the spec `goal` for new files, is at the root. Returns None if
    no value is a bucket of the hash key and `goal` is None, or if the number of buckets is no power of two.
    """
    for i, value in enumerate(node.partition):
        if value.transform.is_bucket_of(hash_key) and value.value is not None:
            place = to_hash_node(value.transform.parameter or 0, int(value.value))
            return None if place is None else ((*node.partition[:i], *node.partition[i + 1 :]), place)
    return None if goal is None or _is_in_bucket(node, hash_key) else (node.partition, ROOT)
