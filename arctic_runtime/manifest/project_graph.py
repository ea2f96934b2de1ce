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


class ProjectGraph:
    """The nodes of a project by their tables, and what is below each of them in dbt's graph."""

    def __init__(self, nodes: Iterable[ProjectNode] = ()) -> None:
        self._nodes = {node.unique_id: node for node in nodes}

    @property
    def nodes(self) -> tuple[ProjectNode, ...]:
        return tuple(self._nodes.values())

    def list_descendants(self, tables: Collection[TableName]) -> tuple[TableName, ...]:
        """Returns the tables of all nodes that read one of `tables`, directly or through other nodes; sorted."""
        children: dict[str, list[str]] = defaultdict(list)
        for node in self._nodes.values():
            for parent in node.parents:
                children[parent].append(node.unique_id)
        waiting = [node.unique_id for node in self._nodes.values() if node.table in tables]
        below: set[str] = set()
        while waiting:
            new = set(children[waiting.pop()]) - below
            below |= new
            waiting += new
        return tuple(sorted({self._nodes[name].table for name in below}))

    def find_counterparts(self, others: Iterable[ProjectNode]) -> dict[TableName, Counterpart]:
        """Maps each table of the project to the table of the same node among `others`, those of another environment."""
        theirs = {node.unique_id: Counterpart(node.table, node.masks) for node in others}
        return {node.table: theirs[name] for name, node in self._nodes.items() if name in theirs}
