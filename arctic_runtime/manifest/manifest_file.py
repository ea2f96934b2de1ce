"""Reads the file manifest.json: the nodes of a project by their ids, and which of them are models of arctic tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.node_model import read_model_keys
from arctic_runtime.plan.config.foreign_treatments import ARCTIC

Node = Mapping[str, Any]

_THROUGH = frozenset({"ephemeral", "view"})
"""Materializations of models without rows of their own, so that a model reads what these read."""


@dataclass(frozen=True)
class Manifest:
    """The nodes and sources of a project by their ids, as a file that dbt has written has them."""

    file: Path
    project: str
    nodes: Mapping[str, Node]
    dbt_version: str = ""

    def list_managed(self) -> list[str]:
        """Lists the ids of the models with keys of dbt-arctic, and of those with `materialized: arctic`."""
        return [name for name, node in self.nodes.items() if is_managed(node)]

    def read_compiled(self, name: str) -> str | None:
        """Returns the compiled query of a node, None if there is none.

        dbt-core writes it to the manifest, and dbt v2 to a file of its own in the folder `compiled` beside it.
        """
        node = self.nodes[name]
        code = node.get("compiled_code")
        if isinstance(code, str):
            return code
        written = str(node.get("generated_sql_file") or node.get("original_file_path"))
        folder = self.file.parent / "compiled"
        files = (folder / written, folder / str(node.get("package_name")) / written)
        compiled = next((file for file in files if file.suffix == ".sql" and file.is_file()), None)
        return None if compiled is None else compiled.read_text(encoding="utf-8")

    def list_tests(self, name: str) -> list[str]:
        """Lists the ids of the data tests of a node."""
        return [test for test, node in self.nodes.items() if _is_test(node) and name in list_parents(node)]

    def walk_parents(self, name: str) -> Iterator[str]:
        """Yields the ids of the nodes whose relations the query of a node names: its parents, and those of ephemerals.

        An ephemeral model is yielded too.
        """
        for parent in list_parents(self.nodes[name]):
            if parent in self.nodes:
                yield parent
                if get_materialization(self.nodes[parent]) == "ephemeral":
                    yield from self.walk_parents(parent)

    def list_unmanaged_parents(self, names: Collection[str]) -> list[str]:
        """Lists the ids of the other models, seeds and snapshots that the models `names` read, also through views."""
        others: set[str] = set()
        waiting = list(names)
        while waiting:
            for parent in list_parents(self.nodes[waiting.pop()]):
                node = self.nodes.get(parent)
                if node is None or is_managed(node) or node["resource_type"] == "source" or parent in others:
                    continue
                others.add(parent)
                if get_materialization(node) in _THROUGH:
                    waiting.append(parent)
        return sorted(name for name in others if get_materialization(self.nodes[name]) != "ephemeral")


def read_manifest(file: Path) -> Manifest:
    """Reads a manifest; raises ConfigError if the file can't be read, or if it is no manifest."""
    expected = "the manifest.json that `dbt compile` writes to the folder target"
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        nodes = {**written["nodes"], **written["sources"]}
        metadata = written["metadata"]
        if not all(isinstance(node, dict) and node["resource_type"] for node in nodes.values()):
            raise TypeError("a node is no object")
    except OSError as error:
        raise ConfigError(
            "The manifest can't be read.",
            where=str(file),
            expected=expected,
            actual=error.strerror or str(error),
            fix="run `dbt compile`",
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            "This file is no manifest.",
            where=str(file),
            expected=expected,
            actual=f"{type(error).__name__}: {error}",
            fix="run `dbt compile`",
        ) from error
    return Manifest(file, str(metadata.get("project_name")), nodes, str(metadata.get("dbt_version")))


def is_managed(node: Node) -> bool:
    """Whether dbt-arctic refreshes a node: a model with `materialized: arctic`, or with keys in `meta.arctic`."""
    if node["resource_type"] != "model":
        return False
    return get_materialization(node) == ARCTIC or bool(read_model_keys(node))


def get_materialization(node: Node) -> str:
    return str((node.get("config") or {}).get("materialized") or "")


def list_parents(node: Node) -> list[str]:
    return list((node.get("depends_on") or {}).get("nodes") or ())


def _is_test(node: Node) -> bool:
    return bool(node["resource_type"] == "test")
