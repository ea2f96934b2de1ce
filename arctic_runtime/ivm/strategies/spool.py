"""Rows of a runtime filter that several terms of a plan read, computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arctic_runtime.ivm.algebra.tree import Node, SpoolScan, children, columns, map_children, scans
from arctic_runtime.ivm.rules.partners import is_narrowed


@dataclass(frozen=True)
class Spool:
    """Values, each any number of times, that trees read under a name in the place of `rows`."""

    name: str
    rows: Node

    @property
    def given(self) -> SpoolScan:
        return SpoolScan(self.name, columns(self.rows))


def shared(tree: Node) -> tuple[Node, tuple[Spool, ...]]:
    """The tree over values that it needs in several places, and these values. They are made of changes alone."""
    times = Counter(_narrowed(tree))
    several = [node for node, found in times.items() if found > 1]
    made = {node: Spool(f"__arctic_shared_{number}", node) for number, node in enumerate(several)}
    return _over(tree, made), tuple(made.values())


def _narrowed(node: Node) -> Iterator[Node]:
    if _is_shareable(node):
        yield node
    else:
        for child in children(node):
            yield from _narrowed(child)


def _is_shareable(node: Node) -> bool:
    return is_narrowed(node) and not any(scan.reads_rows for scan in scans(children(node)[0]))


def _over(node: Node, made: Mapping[Node, Spool]) -> Node:
    if _is_shareable(node):
        return made[node].given if node in made else node
    return map_children(node, lambda child: _over(child, made))
