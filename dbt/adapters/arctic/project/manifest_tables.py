"""The tables of a project without dbt, for commands that look at them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.manifest.model_files import ModelFiles
from arctic_runtime.manifest.profile_file import read_profile_file
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import Counterpart
from dbt.adapters.arctic.project.project_tables import CompiledProject


def load_manifest_tables(files: ModelFiles, profile: Path) -> CompiledProject:
    """Returns the models that dbt-arctic refreshes; raises ConfigError if one can't be used."""
    models = _read_models(files, profile)
    built = sorted(map(models.build_model, models.manifest.list_managed()), key=lambda model: model.table)
    return CompiledProject(models.target.profile, tuple(built), graph=models.graph)


def find_manifest_counterparts(
    project: CompiledProject, files: ModelFiles, profile: Path, state: str | None, target: str | None
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
    return project.graph.find_counterparts(_read_models(files.open_state(Path(state)), profile).graph.nodes)


def _read_models(files: ModelFiles, profile: Path) -> ManifestModels:
    return ManifestModels(files.read_models(), read_profile_file(profile))
