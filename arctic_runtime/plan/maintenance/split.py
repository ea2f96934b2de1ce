"""Plans splits and merges of buckets of a base table, as steps of a compaction or as an operation of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arctic_runtime.model.files.compaction import (
    CompactionMode,
    CompactionPlan,
    LeftAlone,
    ResizeBuckets,
    TableFiles,
)
from arctic_runtime.model.table import Model
from arctic_runtime.plan.maintenance.bucket_resizing import (
    Resize,
    compute_depth_after,
    explain_unsplit,
    plan_node_merges,
    plan_splits,
)
from arctic_runtime.plan.maintenance.commit_groups import split_into_commits
from arctic_runtime.plan.maintenance.hash_trees import CompactionUnit, is_in_tree, list_bucket_counts, list_units
from arctic_runtime.thresholds import CompactionThresholds, Thresholds

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
