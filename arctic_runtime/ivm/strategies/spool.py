"""Plans spools: changed rows after a runtime filter are computed once, even if several terms of a plan read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arctic_runtime.ivm.algebra.tree import Node, SpoolScan, list_children, list_columns, list_scans, map_children
from arctic_runtime.ivm.rules.partners import has_runtime_filter


@dataclass(frozen=True)
class Spool:
    """Rows that are computed once, by the tree `rows`, and that other trees read as a spool with the name `name`."""

    name: str
    rows: Node

    @property
    def scan(self) -> SpoolScan:
        return SpoolScan(self.name, list_columns(self.rows))


def with_spools(tree: Node) -> tuple[Node, tuple[Spool, ...]]:
    """Replaces subtrees that occur several times in `tree` by scans of spools; returns the new tree and the spools.

    Only subtrees of changed rows after a runtime filter are replaced.
    """
    times = Counter(_list_shareable(tree))
    several = [node for node, count in times.items() if count > 1]
    made = {node: Spool(f"__arctic_shared_{number}", node) for number, node in enumerate(several)}
    return _replace_nodes(tree, made), tuple(made.values())


def _list_shareable(node: Node) -> Iterator[Node]:
    if _is_shareable(node):
        yield node
    else:
        for child in list_children(node):
            yield from _list_shareable(child)


def _is_shareable(node: Node) -> bool:
    return has_runtime_filter(node) and not any(scan.reads_rows for scan in list_scans(list_children(node)[0]))


def _replace_nodes(node: Node, made: Mapping[Node, Spool]) -> Node:
    if _is_shareable(node):
        return made[node].scan if node in made else node
    return map_children(node, lambda child: _replace_nodes(child, made))
