"""Finds the tables of a project's models in another environment, for commands that compare two environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.project_graph import ProjectNode
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.profile import Profile
from dbt.adapters.arctic.project.compiled_project import load_profile, parse_manifest
from dbt.adapters.arctic.project.environments import list_manifest_nodes, read_state_nodes
from dbt.adapters.arctic.project.project_tables import CompiledProject


def find_counterparts(
    project: CompiledProject, project_dir: Path, profiles_dir: Path | None, state: str | None, target: str | None
) -> Mapping[TableName, Counterpart]:
    """Maps tables of a project to those of the same nodes in the environment of a manifest or of another target.

    `state` is the folder of the manifest, `target` the name of the target; one of them is None. Raises ConfigError if
    the environment can't be read, or has another catalog.
    """
    if state is not None:
        nodes = read_state_nodes(state, project_dir)
        _check_catalog(f"--state {state}", nodes, project.profile)
    else:
        manifest = parse_manifest(project_dir, profiles_dir, target)
        _check_profile(str(target), load_profile(project_dir, profiles_dir, target), project.profile)
        nodes = list_manifest_nodes(manifest)
    return project.graph.find_counterparts(nodes)


def _check_catalog(where: str, nodes: Sequence[ProjectNode], own: Profile) -> None:
    """Raises ConfigError if no node is in the catalog of the profile."""
    catalogs = sorted({node.table.catalog for node in nodes})
    if own.catalog not in catalogs:
        raise _build_refusal(where, ", ".join(catalogs) or "none", own)


def _check_profile(target: str, other: Profile, own: Profile) -> None:
    if (other.catalog, other.catalog_properties) != (own.catalog, own.catalog_properties):
        same = " of the same name, with another catalog_config" if other.catalog == own.catalog else ""
        raise _build_refusal(f"--other-target {target}", f"{other.catalog}{same}", own)


def _build_refusal(where: str, actual: str, own: Profile) -> ConfigError:
    return ConfigError(
        "Tables of different catalogs can't be compared.",
        where=where,
        expected=f"tables in the catalog {own.catalog}, as those of this target",
        actual=actual,
        fix="compare environments that are schemas of one catalog",
    )
