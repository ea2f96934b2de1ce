"""The tables of a project's nodes, and those of another environment as the manifest of a dbt command has them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import Counterpart
from dbt.adapters.arctic.materialize.masks import read_masks

MANIFEST = "manifest.json"
_WITH_TABLE = frozenset({"model", "seed", "snapshot", "source"})


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


def list_manifest_nodes(manifest: Any) -> list[ProjectNode]:
    """Lists the nodes of a parsed project that have a table."""
    nodes = (*manifest.nodes.values(), *manifest.sources.values())
    return [part for node in nodes if str(node.resource_type) in _WITH_TABLE for part in _build_nodes(node)]


def _build_nodes(node: Any) -> Iterator[ProjectNode]:
    built = ProjectNode(
        str(node.unique_id),
        TableName(str(node.database), str(node.schema), str(getattr(node, "alias", None) or node.identifier)),
        tuple(map(str, getattr(node, "depends_on_nodes", ()))),
        read_masks(node),
    )
    yield from _add_quarantine(built, getattr(node, "config", None))


def _add_quarantine(node: ProjectNode, config: Any) -> Iterator[ProjectNode]:
    """Yields a node, and its quarantine if it has one, which reads what the node reads."""
    yield node
    if config is not None and config.get("on_failed_row") == "quarantine":
        yield replace(node, unique_id=f"{node.unique_id} quarantine", table=node.table.quarantine)


def read_state_nodes(state: str, project_dir: Path) -> list[ProjectNode]:
    """Reads the nodes of the manifest in a folder, as dbt's `--state` names it: below the project, or absolute.

    Raises ConfigError if there is no manifest, or if it can't be read.
    """
    file = project_dir.absolute() / state / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        return list(_build_state_nodes(manifest))
    except OSError as error:
        raise ConfigError(
            f"`--state` {state} has no manifest that can be read.",
            where=str(file),
            expected=f"a folder with the {MANIFEST} of the other environment, as for `dbt clone --state`",
            actual=error.strerror or str(error),
            fix="copy target/manifest.json there after a run in the other environment",
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"`--state` {state} has a manifest that can't be read.",
            where=str(file),
            expected="a manifest that dbt wrote",
            actual=f"{type(error).__name__}: {error}",
            fix="copy target/manifest.json there after a run in the other environment",
        ) from error


def _build_state_nodes(manifest: Mapping[str, Any]) -> Iterator[ProjectNode]:
    for unique_id, node in (*manifest["nodes"].items(), *manifest["sources"].items()):
        if node["resource_type"] in _WITH_TABLE:
            table = TableName(str(node["database"]), str(node["schema"]), str(node.get("alias") or node["identifier"]))
            parents = tuple((node.get("depends_on") or {}).get("nodes", ()))
            yield from _add_quarantine(ProjectNode(unique_id, table, parents, read_masks(node)), node.get("config"))
