"""The tables of a manifest for commands that look at them: read without dbt, whatever adapter has written it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.manifest_file import read_manifest
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.manifest.profile_file import read_profile_file
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import Counterpart
from dbt.adapters.arctic.project.environments import MANIFEST
from dbt.adapters.arctic.project.project_tables import CompiledProject


def load_manifest_tables(file: Path, profile: Path) -> CompiledProject:
    """Returns the models of a manifest that dbt-arctic refreshes; raises ConfigError if one can't be used."""
    models = _read_models(file, profile)
    built = sorted(map(models.build_model, models.manifest.list_managed()), key=lambda model: model.table)
    return CompiledProject(models.target.profile, tuple(built), graph=models.graph)


def find_manifest_counterparts(
    project: CompiledProject, profile: Path, state: str | None, target: str | None
) -> Mapping[TableName, Counterpart]:
    """Maps tables to those of the same nodes in the manifest in the folder `state`.

    Raises ConfigError for a `target`, which only dbt knows.
    """
    if state is None:
        raise ConfigError(
            "--other-target needs dbt, which knows the targets.",
            actual=f"--other-target {target}",
            fix="compile for that target, and name the folder of its manifest by --state",
        )
    return project.graph.find_counterparts(_read_models(Path(state) / MANIFEST, profile).graph.nodes)


def _read_models(file: Path, profile: Path) -> ManifestModels:
    return ManifestModels(read_manifest(file), read_profile_file(profile))
