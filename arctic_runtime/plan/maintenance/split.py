"""Plans splits of large and merges of small buckets of a base table, as steps of a compaction or an own operation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from arctic_runtime.model.files.compaction import (
    CompactionMode,
    CompactionPlan,
    Direction,
    LeftAlone,
    ResizeBuckets,
    TableFiles,
)
from arctic_runtime.model.files.layout import MAX_DEPTH, HashNode
from arctic_runtime.model.table import Model
from arctic_runtime.plan.maintenance.hash_trees import (
    CompactionUnit,
    Partition,
    compute_main_depth,
    is_in_tree,
    list_bucket_counts,
    list_units,
)
from arctic_runtime.thresholds import BucketThresholds, CompactionThresholds, Thresholds


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
    max_bytes = min(thresholds.small_bucket_bytes, limit // thresholds.merged_limit_parts)
    goals = [_compute_merge_depth(units, max_bytes, least_depth) for units in partitions.values()]
    if not alone:
        goals = [max(goals, default=0)] * len(goals)
    reason = f"together they have at most {max_bytes:,} bytes"
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
    able = [unit for unit in wanted if _can_distribute_rows(unit, filled)]
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


def _compute_split_depth(depth: int, size: float, max_bytes: float) -> int:
    """Returns the depth at which the parts of a bucket have at most `max_bytes` bytes; at least one level deeper.

    The bucket has `size` bytes, and is at `depth`.
    """
    deeper = depth + 1
    while deeper < MAX_DEPTH and size / (1 << (deeper - depth)) > max_bytes:
        deeper += 1
    return deeper


def _can_distribute_rows(unit: CompactionUnit, filled: Collection[HashNode]) -> bool:
    """Whether a split of a unit would distribute its rows; `filled` are all hash nodes of the partition with rows.

    If the sibling of a hash node is empty, an earlier split has not distributed the rows, because they have few hash
    values; so another one would not either.
    """
    return len(unit.hash_nodes) > 1 or unit.top.sibling is None or unit.top.sibling in filled


def _compute_merge_depth(partition: Sequence[CompactionUnit], max_bytes: int, least_depth: int) -> int:
    """Returns the smallest depth, not below `least_depth`, to which the buckets of a partition can be merged.

    At that depth no bucket has more than `max_bytes` bytes. If a merge by one level would already exceed that, the
    result is the current largest depth.
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
        if max(above.values()) > max_bytes:
            break
        sizes, depth = above, depth - 1
    return depth


T = TypeVar("T")


def split_into_commits(
    items: Sequence[T],
    size_of: Callable[[T], int],
    kind_of: Callable[[T], Hashable],
    thresholds: CompactionThresholds,
) -> Iterator[list[T]]:
    """Divides items into groups, one for each commit, of consecutive items of the same kind.

    `thresholds` limit the bytes and the number of items of a group. `size_of` returns the bytes of an item, and
    `kind_of` its kind.
    """
    group: list[T] = []
    size = 0
    for item in items:
        more = size_of(item)
        is_full = size + more > thresholds.group_bytes or len(group) == thresholds.group_nodes
        if group and (is_full or kind_of(item) != kind_of(group[0])):
            yield group
            group, size = [], 0
        group.append(item)
        size += more
    if group:
        yield group


SIDE_BY_SIDE = "files of several partition specs lie side by side; a full compaction brings them under one"
NOT_IN_BUCKETS = "its files are not in buckets yet; a full compaction brings them into buckets"
NO_TREE = "it has no nodes in numbers of a power of two, so there is nothing to split"


def plan_split(model: Model, table: TableFiles, thresholds: Thresholds) -> CompactionPlan:
    """Plans the splits and merges of buckets of a base table, with the reasons for which other buckets stay."""
    tree_units = list_units(table, model.config.hash_key)
    resizes = plan_resizes(table, tree_units or [], model, True, thresholds)
    steps = list(plan_resize_steps(table, tree_units or [], resizes, thresholds.compaction))
    taken = {id(node) for step in steps for node in step.nodes}
    reason = None if tree_units is not None and is_in_tree(table, model.config.hash_key) else NO_TREE
    left = (
        LeftAlone(table.table, node, reason or _explain_size(unit, model))
        for unit in tree_units or []
        for node in unit.file_groups
        if id(node) not in taken
    )
    foreign = (LeftAlone(table.table, node, SIDE_BY_SIDE) for node in table.file_groups if tree_units is None)
    return CompactionPlan(tuple(steps), (*left, *foreign))


def plan_resizes(
    table: TableFiles, tree_units: Sequence[CompactionUnit], model: Model, alone: bool, thresholds: Thresholds
) -> list[Resize]:
    """Plans the splits of buckets that are too large; if there are none, the merges of small ones.

    Merges leave at least as many buckets as the model's `nodes`. If `alone`, each partition gets its own number of
    buckets, otherwise all get the same. Units that this compaction has already rewritten are left out.
    """
    config, buckets = model.config, thresholds.buckets
    if not tree_units or not is_in_tree(table, config.hash_key):
        return []
    least = (config.nodes or 1).bit_length() - 1
    resizes = plan_splits(tree_units, config.node_bytes, buckets) or plan_node_merges(
        tree_units, config.node_bytes, least, alone, buckets
    )
    return [resize for resize in resizes if not table.has_finished(resize.unit.file_groups)]


def select_worthwhile(resizes: list[Resize], mode: CompactionMode, thresholds: CompactionThresholds) -> list[Resize]:
    """Returns `resizes`, which are all splits or all merges, if they are worth their cost; otherwise an empty list.

    Splits are always worth it, and so are merges that a user has requested. Merges in mode `auto` are worth it if they
    fit into one commit, and if readers save more than the commit costs.
    """
    united = [resize for resize in resizes if resize.direction == "merge"]
    spared = sum(1 - 2.0 ** (resize.depth - resize.unit.depth) for resize in united) * thresholds.open_file_bytes
    is_small = sum(resize.unit.bytes for resize in united) <= thresholds.group_bytes
    return resizes if mode != "auto" or not united or (is_small and spared >= thresholds.commit_bytes) else []


def plan_resize_steps(
    table: TableFiles, tree_units: Sequence[CompactionUnit], resizes: Sequence[Resize], thresholds: CompactionThresholds
) -> Iterator[ResizeBuckets]:
    if not resizes:
        return
    default, buckets = compute_depth_after(tree_units, resizes), list_bucket_counts(tree_units)
    for group in split_into_commits(
        resizes, lambda resize: resize.unit.bytes, lambda resize: (resize.direction, resize.depth), thresholds
    ):
        nodes = tuple(node for resize in group for node in resize.unit.file_groups)
        yield ResizeBuckets(
            table=table.table,
            expected=table.snapshot,
            direction=group[0].direction,
            nodes=nodes,
            depth=group[0].depth,
            default_depth=default,
            whole=len(nodes) == len(table.file_groups),
            files=sum(len(node.files) for node in nodes),
            bytes=sum(resize.unit.bytes for resize in group),
            target_bytes=table.target_bytes,
            reason=group[-1].reason,
            buckets=buckets,
        )


def _explain_size(unit: CompactionUnit, model: Model) -> str:
    limit = model.config.node_bytes
    if unit.goal is not None and unit.largest <= limit:
        return NOT_IN_BUCKETS
    return explain_unsplit(unit, limit) or f"{unit.largest:,} bytes, within {limit:,}, and too many to be put together"
