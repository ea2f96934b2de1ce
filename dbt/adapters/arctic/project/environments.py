"""The tables of a project's nodes, and those of another environment as the manifest of a dbt command has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.masks import read_masks
from arctic_runtime.manifest.project_graph import ProjectNode
from arctic_runtime.model.names import TableName

MANIFEST = "manifest.json"
_WITH_TABLE = frozenset({"model", "seed", "snapshot", "source"})


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
