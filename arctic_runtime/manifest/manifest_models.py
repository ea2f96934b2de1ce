"""The nodes of a manifest as tables of a target's catalog, and the models that dbt-arctic refreshes among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.compiled_code import rewrite_relations
from arctic_runtime.manifest.manifest_file import Manifest, Node, get_materialization, list_parents
from arctic_runtime.manifest.masks import read_masks
from arctic_runtime.manifest.node_model import build_model, has_schedule, select_known_keys
from arctic_runtime.manifest.profile_file import ManifestTarget
from arctic_runtime.manifest.project_graph import ProjectGraph, ProjectNode
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.service.refreshing.source_relations import FollowedModel

_KNOWN_JINJA = re.compile(r"\{\{-?\s*(?:config|ref|source|arctic\.changes)\s*\(.*?\)\s*-?\}\}|\{#.*?#\}", re.DOTALL)
"""Jinja that gives the same text whether the table exists or not."""


@dataclass(frozen=True)
class ManifestModels:
    """The nodes of a manifest as tables of a target's catalog."""

    manifest: Manifest
    target: ManifestTarget

    def name_table(self, name: str) -> TableName:
        """Returns the table of a model, seed, snapshot or source, by the id of its node."""
        node = self.manifest.nodes[name]
        schema, table = str(node["schema"]), node.get("identifier") or node.get("alias") or node["name"]
        return TableName(self.target.profile.catalog, self.target.schemas.get(schema, schema), str(table))

    def write_query(self, name: str) -> str:
        """Returns the compiled query of a model or test, with the names of relations as dbt-arctic writes them.

        Raises ConfigError if dbt has not compiled it.
        """
        code = self.manifest.read_compiled(name)
        if code is None:
            raise ConfigError(
                f"{name} is not compiled.",
                where=str(self.manifest.file),
                expected="`compiled_code` in the manifest, or a file in the folder `compiled` beside it",
                fix="write it by `dbt compile`; `dbt parse` and `dbt list` compile nothing",
            )
        relations = ((self.manifest.nodes[node].get("relation_name"), node) for node in self._list_named(name))
        return rewrite_relations(code, {str(text): self.name_table(node) for text, node in relations if text})

    def build_model(self, name: str) -> Model:
        """Builds the model of a node; raises ConfigError if its configuration or its query can't be used."""
        node = self.manifest.nodes[name]
        _check_node(name, node)
        config = read_configuration(select_known_keys(node), name)
        if config.on_failed_row == "quarantine":
            raise ConfigError(f"{name}: `on_failed_row: quarantine` needs dbt-core and the adapter.", fix="remove it")
        return build_model(node, self.name_table(name), self.write_query(name), config, self._sources)

    def build_followed(self, name: str) -> FollowedModel:
        read = (node for node in self.manifest.walk_parents(name) if self._has_table(node))
        return FollowedModel(self.build_model(name), name, frozenset(map(self.name_table, read)))

    @cached_property
    def managed_tables(self) -> tuple[TableName, ...]:
        """The tables of all models that dbt-arctic refreshes, whether they are selected or not."""
        return tuple(map(self.name_table, self.manifest.list_managed()))

    @cached_property
    def graph(self) -> ProjectGraph:
        """All nodes with a table."""
        nodes = self.manifest.nodes
        kinds = ("model", "seed", "snapshot", "source")
        shown = ((name, node) for name, node in nodes.items() if node["resource_type"] in kinds)
        return ProjectGraph(
            ProjectNode(name, self.name_table(name), tuple(list_parents(node)), read_masks(node))
            for name, node in shown
        )

    def find_node(self, table: TableName) -> str | None:
        """Returns the id of the node of a table, of a model before that of a source; None for an unknown table."""
        return next((node.unique_id for node in self.graph.nodes if node.table == table), None)

    def list_unserved_parts(self) -> Iterator[str]:
        """Yields a line for people about each schedule and each ingested source: both need a service with dbt."""
        for name, node in self.manifest.nodes.items():
            if has_schedule(node):
                yield f"{self.name_table(name)} is not run at its `schedule`: only a service with dbt does this"
        ingested = {str(node["source_name"]) for node in self._list_sources() if _is_ingested(node)}
        for source in sorted(ingested):
            yield f"source {source} is not ingested: `arctic ingest` in a project of the adapter does this"

    def _list_named(self, name: str) -> Iterator[str]:
        yield name
        yield from self.manifest.walk_parents(name)

    def _has_table(self, name: str) -> bool:
        return get_materialization(self.manifest.nodes[name]) != "ephemeral"

    @cached_property
    def _sources(self) -> Mapping[TableName, bool]:
        return {self.name_table(str(node["unique_id"])): _is_ingested(node) for node in self._list_sources()}

    def _list_sources(self) -> list[Node]:
        return [node for node in self.manifest.nodes.values() if node["resource_type"] == "source"]


def _check_node(name: str, node: Node) -> None:
    """Raises ConfigError for a model whose rows its compiled query does not give."""
    if node.get("language", "sql") != "sql":
        raise ConfigError(f"{name} is a Python model, which only dbt runs.", fix="remove `meta.arctic` from it")
    rest = _KNOWN_JINJA.sub("", str(node.get("raw_code") or ""))
    if get_materialization(node) == "incremental" and ("{{" in rest or "{%" in rest):
        raise ConfigError(
            f"{name} may leave out rows: dbt compiles an incremental model to another query once its table exists.",
            expected="materialized: table, or no Jinja but `config`, `ref`, `source` and `arctic.changes`",
            actual="materialized: incremental, with other Jinja",
            fix="set `materialized: table`, for which is_incremental() is false",
        )


def _is_ingested(node: Node) -> bool:
    settings = (node.get("source_meta") or {}).get("arctic")
    return isinstance(settings, Mapping) and bool(settings.get("ingest"))
