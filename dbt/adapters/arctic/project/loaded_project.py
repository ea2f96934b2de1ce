"""A dbt project as `dbt run` loads it: its configuration, its manifest and the selected models."""

from __future__ import annotations

import copy
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.connectors import with_jars
from arctic_runtime.profile import Profile
from dbt.adapters.arctic.materialize.maintain import is_arctic
from dbt.adapters.arctic.materialize.served_keys import read_served_keys
from dbt.adapters.arctic.project.compiled_project import parse_manifest
from dbt.adapters.arctic.project.keys.missing_keys import check_keys
from dbt.adapters.arctic.project.sources import ingest_sources, list_landing_tables


@dataclass(frozen=True)
class Location:
    """Folders and target of a project, and the selection of its models, in terms of dbt's options."""

    project_dir: Path
    """Folder with `dbt_project.yml`."""

    profiles_dir: Path | None = None
    """Folder with `profiles.yml`; None for dbt's default."""

    target: str | None = None
    """Name of the target in the profile; None for the profile's default."""

    select: Sequence[str] = ()
    """Selectors of models, as for `--select`."""

    exclude: Sequence[str] = ()
    """Selectors of models to leave out, as for `--exclude`."""

    is_built: bool = False
    """True for a command that ends: with `publish: build` it writes to a branch of the catalog."""

    is_served: bool = False
    """True for a service: Spark gets the JARs for ingestion of the sources, and dbt runs scheduled models."""

    def build_options(self, target_path: str) -> dict[str, Any]:
        """Returns the options of `dbt run` for this location; dbt writes to the folder `target_path`."""
        all_options = {
            "project_dir": str(self.project_dir.absolute()),
            "profiles_dir": None if self.profiles_dir is None else str(self.profiles_dir),
            "target": self.target,
            "select": list(self.select),
            "exclude": list(self.exclude),
            "target_path": target_path,
        }
        return {key: value for key, value in all_options.items() if value}


@dataclass(frozen=True)
class LoadedProject:
    """A project that dbt has parsed."""

    location: Location
    flags: Any
    config: Any
    adapter: Any
    manifest: Any
    nodes: Mapping[str, Any]
    """The selected arctic models by unique id."""

    scheduled: Mapping[str, Any]
    """The other selected models that dbt runs for a service; empty without a service."""

    scratch: tempfile.TemporaryDirectory[str]
    """Folder into which dbt compiles; it is deleted together with this object."""

    _compiling: threading.Lock = field(default_factory=threading.Lock)

    @property
    def profile(self) -> Profile:
        profile: Profile = self.adapter.profile
        return profile

    @property
    def threads(self) -> int:
        return int(self.config.threads)

    def prepare_build(self) -> None:
        """Prepares the tables of the project for changes on a branch, if the command writes to one."""
        if self.location.is_built and self.adapter.is_published_whole:
            self.adapter.prepare_build(self.nodes)

    def compile_node(self, node: Any) -> Any:
        """Compiles a node and returns the compiled copy.

        Earlier compilations of the node, and of ephemeral models in it, are ignored. Raises dbt's errors.
        """
        from dbt.compilation import Compiler

        manifest, fresh = self.manifest, copy_uncompiled(node)
        with self._compiling, self.open_connection(fresh):
            for parent in self._walk_ephemeral(fresh):
                manifest.nodes[parent.unique_id] = copy_uncompiled(parent)
            return Compiler(self.config).compile_node(fresh, manifest)

    @contextmanager
    def open_connection(self, node: Any) -> Iterator[None]:
        """Opens this thread's connection for dbt's work on a node until the context ends.

        Also empties dbt's cache of relations.
        """
        self.adapter.cache.clear()
        with self.adapter.connection_named(node.unique_id, node):
            yield

    def walk_parents(self, node: Any) -> Iterator[Any]:
        """Yields the nodes that a node reads by `ref` and `source`; ephemeral models are replaced by their parents."""
        for unique_id in node.depends_on_nodes:
            parent = self.manifest.nodes.get(unique_id) or self.manifest.sources.get(unique_id)
            if parent is not None and getattr(parent, "is_ephemeral_model", False):
                yield from self.walk_parents(parent)
            elif parent is not None:
                yield parent

    def _walk_ephemeral(self, node: Any) -> Iterator[Any]:
        for unique_id in node.depends_on_nodes:
            parent = self.manifest.nodes.get(unique_id)
            if parent is not None and parent.is_ephemeral_model:
                yield parent
                yield from self._walk_ephemeral(parent)


def copy_uncompiled(node: Any) -> Any:
    """Returns a copy of a node without the results of a compilation."""
    fresh = copy.copy(node)
    fresh.compiled, fresh.compiled_code = False, None
    fresh.extra_ctes_injected, fresh.extra_ctes = False, []
    return fresh


def load_project(location: Location) -> LoadedProject:
    """Parses a project and selects its arctic models.

    Raises ConfigError if dbt fails, if no such model is selected, and for models without a primary key.
    """
    project = load_nodes(location, is_arctic)
    check_keys(project.nodes.values(), project.manifest.nodes.values())
    if not project.nodes:
        asked = " ".join(location.select) or "everything"
        raise ConfigError(
            f"no arctic model is selected.\n  asked for: {asked}",
            expected="a model with `materialized: arctic`",
            fix="correct --select, or leave it out",
        )
    return project


def load_nodes(location: Location, is_wanted: Callable[[Any], bool]) -> LoadedProject:
    """Parses a project; its `nodes` are the selected models for which `is_wanted` returns True.

    Raises ConfigError if dbt can't parse it.
    """
    from dbt.adapters.factory import get_adapter, register_adapter
    from dbt.cli.flags import Flags
    from dbt.cli.types import Command
    from dbt.config.runtime import RuntimeConfig
    from dbt.context.providers import generate_runtime_macro_context
    from dbt.context.query_header import generate_query_header_context
    from dbt.flags import set_flags
    from dbt.mp_context import get_mp_context
    from dbt_common.exceptions import DbtBaseException

    manifest = parse_manifest(location.project_dir, location.profiles_dir, location.target)
    scratch = tempfile.TemporaryDirectory(prefix="dbt-arctic-")
    try:
        flags = Flags.from_dict(Command.RUN, location.build_options(scratch.name))
        set_flags(flags)
        config: Any = RuntimeConfig.from_args(flags)
        register_adapter(config, get_mp_context())
        adapter: Any = get_adapter(config)
        adapter.set_macro_context_generator(generate_runtime_macro_context)
        adapter.set_macro_resolver(manifest)
        adapter.connections.set_query_header(generate_query_header_context(config, manifest))
        if location.is_built and adapter.is_published_whole:
            adapter.begin_build()
        if location.is_served:
            adapter.connections.arctic_profile = with_jars(adapter.profile, ingest_sources(manifest))
            list_landing_tables(manifest)  # Raises ConfigError while the earlier project can still be kept.
        selected = _select_models(flags, config, manifest)
    except (DbtBaseException, RuntimeError) as error:  # dbt raises RuntimeError for models in a circle
        raise ConfigError(str(error)) from error
    nodes = {name: node for name, node in selected.items() if is_wanted(node)}
    scheduled = {
        name: node for name, node in selected.items() if location.is_served and read_served_keys(node).schedule
    }
    return LoadedProject(location, flags, config, adapter, manifest, nodes, scheduled, scratch)


def _select_models(flags: Any, config: Any, manifest: Any) -> dict[str, Any]:
    """Returns the models that `dbt run` with these options would run, by unique id, as dbt selects them."""
    from dbt.task.run import RunTask

    task = RunTask(flags, config, manifest)
    task.compile_manifest()
    selected = task.get_node_selector().get_selected(task.get_selection_spec())
    return {unique_id: manifest.nodes[unique_id] for unique_id in sorted(selected)}
