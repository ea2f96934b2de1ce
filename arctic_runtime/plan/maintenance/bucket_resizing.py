"""Chooses the buckets of a base table that are split because they are too large, or merged because they are small."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from arctic_runtime.model.files.compaction import Direction
from arctic_runtime.model.files.hash_tree import MAX_DEPTH, HashNode
from arctic_runtime.plan.maintenance.hash_trees import CompactionUnit, Partition, compute_main_depth
from arctic_runtime.thresholds import BucketThresholds


@dataclass(frozen=True)
class Resize:
    """A planned split or merge: the files of `unit` are rewritten at another `depth` of the hash tree.

    `reason` is a text for users.
    """

    unit: CompactionUnit
    direction: Direction
    depth: int
    reason: str


def plan_splits(units: Sequence[CompactionUnit], limit: int, thresholds: BucketThresholds) -> list[Resize]:
    """Plans the splits of units (see `CompactionUnit`) that have a bucket of more than `limit` bytes.

    If the buckets of a partition at the same depth are nearly as large on average, all of them are split. The largest
    units of a depth come last, so that the reason to split all still exists if a run stops before them.
    """
    resizes: list[Resize] = []
    for partition in _group_by_partition(units).values():
        if any(unit.largest > limit for unit in partition):
            resizes += _split_partition(partition, limit, thresholds)
    return sorted(resizes, key=lambda resize: resize.depth)


def plan_node_merges(
    all_units: Sequence[CompactionUnit], limit: int, least_depth: int, alone: bool, thresholds: BucketThresholds
) -> list[Resize]:
    """Plans the merges of buckets in partitions whose rows fit into fewer buckets of far less than `limit` bytes.

    No bucket gets a depth below `least_depth`. If `alone`, each partition gets a depth of its own, otherwise all get
    the same. Files that are not in buckets yet are left to compaction.
    """
    partitions = _group_by_partition([unit for unit in all_units if unit.goal is None])
    most = min(thresholds.small_bucket_bytes, limit // thresholds.merged_limit_parts)
    goals = [_compute_merge_depth(units, most, least_depth) for units in partitions.values()]
    if not alone:
        goals = [max(goals, default=0)] * len(goals)
    reason = f"together they have at most {most:,} bytes"
    resizes = [
        Resize(unit, "merge", goal, reason)
        for goal, units in zip(goals, partitions.values(), strict=True)
        for unit in sorted(units, key=partial(_sort_by_parent, goal))
        if goal < unit.depth
    ]
    return sorted(resizes, key=lambda resize: resize.depth)


def _sort_by_parent(depth: int, unit: CompactionUnit) -> tuple[int, int]:
    """Returns a sort key that places units that are merged into the same bucket at `depth` next to each other."""
    top = unit.top.get_ancestor(min(unit.top.depth, depth))
    return top.depth, top.index


def compute_depth_after(units: Sequence[CompactionUnit], resizes: Iterable[Resize]) -> int:
    """Returns the depth of the hash tree that has most bytes of `units` after `resizes`, at which new files begin."""
    goals = {id(resize.unit): resize.depth for resize in resizes}
    return compute_main_depth((goals.get(id(unit), unit.depth), unit.bytes) for unit in units)


def explain_unsplit(unit: CompactionUnit, limit: int) -> str | None:
    """Explains why a unit with a bucket of more than `limit` bytes is not split; None if it has no such bucket."""
    if unit.largest <= limit:
        return None
    if unit.depth >= MAX_DEPTH:
        return f"{unit.largest:,} bytes, more than {limit:,}, and there are no more than {1 << MAX_DEPTH} nodes"
    return (
        f"{unit.largest:,} bytes, more than {limit:,}, but the node beside it is empty: few values of the hash key "
        "have all rows, so splitting would part nothing; choose another `hash_key`"
    )


def _group_by_partition(units: Sequence[CompactionUnit]) -> Mapping[Partition, list[CompactionUnit]]:
    partitions: dict[Partition, list[CompactionUnit]] = {}
    for unit in units:
        partitions.setdefault(unit.partition, []).append(unit)
    return partitions


def _split_partition(partition: Sequence[CompactionUnit], limit: int, thresholds: BucketThresholds) -> list[Resize]:
    levels: dict[int, list[CompactionUnit]] = {}
    for unit in partition:
        levels.setdefault(unit.depth, []).append(unit)
    filled = {unit.top.get_ancestor(depth) for unit in partition for depth in range(unit.top.depth + 1)}
    return [
        resize for depth, level in levels.items() for resize in _split_level(depth, level, limit, filled, thresholds)
    ]


def _split_level(
    depth: int, level: Sequence[CompactionUnit], limit: int, filled: Collection[HashNode], thresholds: BucketThresholds
) -> list[Resize]:
    """Plans the splits of `level`, the units of one partition at one depth.

    `filled` are all hash nodes of the partition with rows. All units are split if the mean size of their buckets is
    near `limit`; otherwise only those with a bucket above it.
    """
    outgrown = [unit for unit in level if unit.largest > limit]
    nodes = sum(1 << (depth - unit.top.depth) for unit in level)
    mean = sum(unit.bytes for unit in level) / nodes
    if depth >= MAX_DEPTH or not outgrown:
        return []
    about_to_split = thresholds.level_split_share * limit
    is_whole = mean > about_to_split
    wanted = sorted(level if is_whole else outgrown, key=lambda unit: unit.largest)
    able = [unit for unit in wanted if _can_part(unit, filled)]
    if is_whole:
        reason = f"nodes have {int(mean):,} bytes in the mean, about to be more than {limit:,}"
        return [Resize(unit, "split", _compute_split_depth(depth, mean, about_to_split), reason) for unit in able]
    return [
        Resize(
            unit,
            "split",
            _compute_split_depth(depth, unit.largest, about_to_split),
            f"up to {unit.largest:,} bytes in a node, more than {limit:,}",
        )
        for unit in able
    ]


def _compute_split_depth(depth: int, size: float, most: float) -> int:
    """Returns the depth at which the parts of a bucket have at most `most` bytes; at least one level deeper.

    The bucket has `size` bytes, and is at `depth`.
    """
    deeper = depth + 1
    while deeper < MAX_DEPTH and size / (1 << (deeper - depth)) > most:
        deeper += 1
    return deeper


def _can_part(unit: CompactionUnit, filled: Collection[HashNode]) -> bool:
    """Whether a split of a unit would distribute its rows; `filled` are all hash nodes of the partition with rows.

    If the sibling of a hash node is empty, an earlier split has not distributed the rows, because they have few hash
    values; so another one would not either.
    """
    return len(unit.hash_nodes) > 1 or unit.top.sibling is None or unit.top.sibling in filled


def _compute_merge_depth(partition: Sequence[CompactionUnit], most: int, least_depth: int) -> int:
    """Returns the smallest depth, not below `least_depth`, to which the buckets of a partition can be merged.

    At that depth no bucket has more than `most` bytes. If a merge by one level would already exceed that, the result is
    the current largest depth.
    """
    depth = max(place.depth for unit in partition for place in unit.hash_nodes)
    sizes: dict[HashNode, int] = {}
    for unit in partition:
        for place, node in zip(unit.hash_nodes, unit.file_groups, strict=True):
            sizes[place] = sizes.get(place, 0) + node.bytes
    while depth > least_depth:
        above: dict[HashNode, int] = {}
        for place, size in sizes.items():
            at = place.get_ancestor(min(place.depth, depth - 1))
            above[at] = above.get(at, 0) + size
        if max(above.values()) > most:
            break
        sizes, depth = above, depth - 1
    return depth
