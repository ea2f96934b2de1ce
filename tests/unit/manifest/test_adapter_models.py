"""The same project, compiled for dbt-arctic and by other adapters, has the same models."""

from __future__ import annotations

from pathlib import Path

import pytest

from arctic_runtime.manifest.manifest_file import read_manifest
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.manifest.profile_file import ManifestTarget
from arctic_runtime.model.table import Model
from arctic_runtime.profile import Profile
from dbt.adapters.arctic.project.compiled_project import load_project
from tests.manifest_project import MODELS, write_manifest, write_project


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    write_project(folder, {"schema": "dwd", "warehouse": "./warehouse"}, "ods")
    return folder


@pytest.fixture(scope="module")
def compiled(folder: Path) -> dict[str, Model]:
    """The models as the adapter compiles them, by name."""
    return {model.table.name: model for model in load_project(folder, folder, None).models}


@pytest.mark.parametrize("adapter", ["duckdb", "spark"])
def test_a_model_of_a_manifest_is_the_one_that_the_adapter_compiles(
    adapter: str, folder: Path, compiled: dict[str, Model]
) -> None:
    target = ManifestTarget(Profile.for_embedded(folder / "warehouse"))
    models = ManifestModels(read_manifest(write_manifest(folder, adapter)), target)
    built = {model.table.name: model for model in map(models.build_model, models.manifest.list_managed())}
    assert set(built) == set(MODELS)
    assert built == compiled
