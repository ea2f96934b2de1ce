"""Draws the buckets of one partition of a base table for people, with their bytes and files, as a binary tree.

Buckets are the nodes of a hash tree: a split gives a node two children, and rows belong to nodes by a hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.layout import ROOT, HashNode
from arctic_runtime.model.table import Model
from arctic_runtime.plan.maintenance.hash_trees import CompactionUnit, list_units
from arctic_runtime.plan.maintenance.split import SIDE_BY_SIDE
from arctic_runtime.suggestions import suggest_nearest
from arctic_runtime.thresholds import ReportThresholds

ALL_ROWS = "all rows"


@dataclass(frozen=True)
class Drawn:
    """A node of a hash tree (a bucket), by its `depth` below the root and its `index` among nodes of this depth.

    `bytes` and `files` include all nodes below it; `own_files` is the number of files of the node itself.
    """

    depth: int
    index: int
    bytes: int
    files: int
    own_files: int


@dataclass(frozen=True)
class Tree:
    """The nodes of one partition's hash tree (its buckets), sorted from the root down.

    `partition` is the text of the partition's values; `partitions` is the number of the table's partitions.
    """

    model: str
    partition: str
    partitions: int
    nodes: tuple[Drawn, ...]


@dataclass
class _Sum:
    bytes: int = 0
    files: int = 0
    own_files: int = 0


def read_tree(reader: CatalogReader, model: Model, partition: str | None = None) -> Tree | None:
    """Reads the hash tree of `partition`, or if it is None, of the largest partition, from the base table's manifests.

    Returns None if there is no table yet, or if the table has no files. Raises ConfigError if there is no such
    partition, or if the buckets of the files do not form a tree.
    """
    if observe_model(reader, model).base is None:
        return None
    table = observe_files(reader, model.base)
    if table is None or not table.file_groups:
        return None
    tree_units = list_units(table, model.config.hash_key)
    if tree_units is None:
        raise ConfigError(f"{model.base}: {SIDE_BY_SIDE}, so there is no tree to draw")
    partitions: dict[str, list[CompactionUnit]] = {}
    for unit in tree_units:
        partitions.setdefault(", ".join(map(str, unit.partition)) or ALL_ROWS, []).append(unit)
    chosen = partition or max(partitions, key=lambda name: sum(unit.bytes for unit in partitions[name]))
    if chosen not in partitions:
        raise ConfigError(
            f"{model.base} has no partition {chosen!r}{suggest_nearest(chosen, partitions)}; {_list_some(partitions)}"
        )
    return Tree(str(model.table), chosen, len(partitions), _list_nodes(partitions[chosen]))


def describe_tree(tree: Tree, thresholds: ReportThresholds) -> list[str]:
    """Draws a hash tree in lines for people, the root first.

    Deep nodes are left out if there would be too many lines; their bytes and files are included in the nodes above.
    """
    deepest = _find_deepest(tree.nodes, thresholds.tree_lines)
    shown = {HashNode(node.depth, node.index): node for node in tree.nodes if node.depth <= deepest}
    depth = max(node.depth for node in tree.nodes)
    partition_text = "" if tree.partitions == 1 else f", one of {tree.partitions} partitions"
    head = f"  nodes of {tree.partition}{partition_text}: {depth} level(s) below the root"
    return [head, *_draw_lines(ROOT, shown, "  ", "  ")]


def _list_nodes(tree_units: Sequence[CompactionUnit]) -> tuple[Drawn, ...]:
    sums: dict[HashNode, _Sum] = {}
    for unit in tree_units:
        for place, node in zip(unit.hash_nodes, unit.file_groups, strict=True):
            for depth in range(place.depth + 1):
                above = sums.setdefault(place.get_ancestor(depth), _Sum())
                above.bytes, above.files = above.bytes + node.bytes, above.files + len(node.files)
            sums[place].own_files += len(node.files)
    return tuple(
        Drawn(at.depth, at.index, totals.bytes, totals.files, totals.own_files)
        for at, totals in sorted(sums.items(), key=_get_position)
    )


def _get_position(item: tuple[HashNode, object]) -> HashNode:
    return item[0]


def _find_deepest(nodes: Sequence[Drawn], most_lines: int) -> int:
    """Returns the greatest depth at which all nodes down to this depth fit in `most_lines` lines, one line per node."""
    counts: dict[int, int] = {}
    for node in nodes:
        counts[node.depth] = counts.get(node.depth, 0) + 1
    depth, lines = 0, 0
    for depth in sorted(counts):
        lines += counts[depth]
        if lines > most_lines:
            return depth - 1
    return depth


def _draw_lines(at: HashNode, shown: Mapping[HashNode, Drawn], first: str, rest: str) -> list[str]:
    node = shown[at]
    below = [child for child in at.children if child in shown]
    own = f", {node.own_files} of them not below it" if below and node.own_files else ""
    lines = [f"{first}{at}: {node.bytes:,} bytes in {node.files} file(s){own}"]
    for child in below:
        is_last = child == below[-1]
        lines += _draw_lines(child, shown, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "))
    return lines


def _list_some(partitions: Mapping[str, object]) -> str:
    names = sorted(partitions)
    return f"it has {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
