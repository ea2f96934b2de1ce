"""The tables of a project's nodes, and those that are computed from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import Counterpart


@dataclass(frozen=True)
class ProjectNode:
    """A model, seed, snapshot or source of a manifest, with its table and the nodes that it reads."""

    unique_id: str
    table: TableName
    parents: tuple[str, ...] = ()
    masks: Mapping[str, bool] = field(default_factory=dict)
    """Masks of its columns, as in `Model.masks`."""


def invert_edges(parents: Mapping[str, Iterable[str]]) -> Mapping[str, list[str]]:
    """Returns the children of each node that has any; `parents` has the parents of each node."""
    children: dict[str, list[str]] = defaultdict(list)
    for name, above in parents.items():
        for parent in above:
            children[parent].append(name)
    return children


def walk_edges(names: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Returns all nodes that can be reached from the nodes `names` by at least one edge."""
    reached, waiting = set[str](), list(names)
    while waiting:
        new = set(edges.get(waiting.pop(), ())) - reached
        reached |= new
        waiting += new
    return reached


class ProjectGraph:
    """The nodes of a project by their tables, and what is below each of them in dbt's graph."""

    def __init__(self, nodes: Iterable[ProjectNode] = ()) -> None:
        self._nodes = {node.unique_id: node for node in nodes}

    @property
    def nodes(self) -> tuple[ProjectNode, ...]:
        return tuple(self._nodes.values())

    def list_descendants(self, tables: Collection[TableName]) -> tuple[TableName, ...]:
        """Returns the tables of all nodes that read one of `tables`, directly or through other nodes; sorted."""
        children = invert_edges({name: node.parents for name, node in self._nodes.items()})
        below = walk_edges((name for name, node in self._nodes.items() if node.table in tables), children)
        return tuple(sorted({self._nodes[name].table for name in below}))

    def find_counterparts(self, others: Iterable[ProjectNode]) -> dict[TableName, Counterpart]:
        """Maps each table of the project to the table of the same node among `others`, those of another environment."""
        theirs = {node.unique_id: Counterpart(node.table, node.masks) for node in others}
        return {node.table: theirs[name] for name, node in self._nodes.items() if name in theirs}
