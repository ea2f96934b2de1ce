"""The models of a manifest as a follower refreshes them: their queries over the catalog of a target."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.compiled_code import rewrite_relations
from arctic_runtime.manifest.manifest_file import Manifest, Node, get_materialization, list_parents, read_manifest
from arctic_runtime.manifest.masks import read_masks
from arctic_runtime.manifest.node_model import build_model, select_known_keys
from arctic_runtime.manifest.profile_file import ManifestTarget
from arctic_runtime.manifest.project_graph import ProjectGraph, ProjectNode
from arctic_runtime.manifest.selection import select_models
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.service.refreshing.refresh_task import Refresher, RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.spark.engine.session_pool import get_pool

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

    def _list_named(self, name: str) -> Iterator[str]:
        yield name
        yield from self.manifest.walk_parents(name)

    def _has_table(self, name: str) -> bool:
        return get_materialization(self.manifest.nodes[name]) != "ephemeral"

    @cached_property
    def _sources(self) -> Mapping[TableName, bool]:
        sources = ((name, node) for name, node in self.manifest.nodes.items() if node["resource_type"] == "source")
        return {self.name_table(name): _is_ingested(node) for name, node in sources}


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


@dataclass
class ManifestProject:
    """The selected models of a manifest, which is read again when its file changes."""

    file: Path
    target: ManifestTarget
    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    warn: Callable[[str], None] = lambda _: None
    """Called with a text for the user if a manifest that was written meanwhile can't be used."""

    reader: CatalogReader = field(init=False)
    models: ManifestModels = field(init=False)

    def __post_init__(self) -> None:
        """Reads the manifest; raises ConfigError if it can't be used, or if no model is selected."""
        self.reader = CatalogReader(self.target.profile)
        self._load()

    @property
    def name(self) -> str:
        return self.models.manifest.project

    @property
    def threads(self) -> int:
        return self.target.threads

    def prepare_thread(self) -> None:
        """Does nothing: a refresh needs nothing of dbt."""

    def has_changed(self) -> bool:
        """Whether the file has changed since it was read; a file that is missing, as while dbt runs, has not."""
        return self.file.is_file() and self._take_stamp() != self._stamp

    def load_models(self) -> Sequence[FollowedModel] | None:
        try:
            self._load()
        except ConfigError as error:
            self.warn(
                f"the manifest has changed, and can't be used as it is; the models before stay.\n  found: {error}"
            )
            return None
        return self._followed

    def list_followed(self) -> Sequence[FollowedModel]:
        return self._followed

    def refresh_model(self, task: Task) -> RefreshResult:
        return Refresher(self.reader, get_pool(self.target.profile), self._list_readers)(task)

    def list_notes(self) -> list[str]:
        """Returns a line for people about each part of the manifest that is left to dbt."""
        manifest = self.models.manifest
        names = [followed.name for followed in self._followed]
        hooked = [name for name in names if _has_hooks(manifest.nodes[name])]
        return [
            *(
                f"{self.models.name_table(name)} is read as it is: dbt makes this {_name_kind(manifest.nodes[name])}"
                for name in manifest.list_unmanaged_parents(names)
            ),
            *(f"{name}: its hooks are not run" for name in hooked),
        ]

    def _list_readers(self, table: TableName) -> list[TableName]:
        return [other for other in self.models.managed_tables if other != table]

    def _load(self) -> None:
        self._stamp = self._take_stamp()
        models = ManifestModels(read_manifest(self.file), self.target)
        selected = select_models(models.manifest, self.select, self.exclude)
        if not selected:
            raise ConfigError(
                "no model with keys of dbt-arctic is selected.",
                where=str(self.file),
                expected="models with `meta: {arctic: {primary_key: …}}`",
                fix="write the key, then run `dbt compile`; or correct --select",
            )
        followed = [models.build_followed(name) for name in selected]
        for schema in sorted({model.table.schema for model in followed}):
            if not self.reader.has_namespace(schema):
                self.reader.create_namespace(schema)
        self.models, self._followed = models, followed

    def _take_stamp(self) -> Any:
        stat = self.file.stat() if self.file.is_file() else None
        return stat and (stat.st_mtime_ns, stat.st_size)


def _has_hooks(node: Node) -> bool:
    return any(node["config"].get(name) for name in ("pre-hook", "pre_hook", "post-hook", "post_hook"))


def _name_kind(node: Node) -> str:
    return get_materialization(node) if node["resource_type"] == "model" else str(node["resource_type"])
