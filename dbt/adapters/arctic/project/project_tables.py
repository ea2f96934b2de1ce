"""A dbt project as commands use it: its arctic models, ingested sources, the profile of its target, and its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.manifest.project_graph import ProjectGraph
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.profile import Profile
from arctic_runtime.service.telemetry.configured import TelemetrySettings
from dbt.adapters.arctic.project.sources import list_ingested_models


@dataclass(frozen=True)
class CompiledProject:
    """A compiled dbt project: its arctic models sorted by table, its ingested sources, and its target's profile."""

    profile: Profile
    models: tuple[Model, ...]
    sources: tuple[IngestSource, ...] = ()
    landing: tuple[Model, ...] = ()
    """Tables of sources that are not ingested but have a `retention`."""

    readers: Callable[[TableName], tuple[TableName, ...]] = lambda _: ()
    """Returns the tables of the models that may read a table."""

    graph: ProjectGraph = field(default_factory=ProjectGraph)
    """All nodes of the project that have a table; empty if its models are not compiled."""

    name: str = ""
    target: str = ""
    """Name of the profile's target."""

    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    """What a command sends and writes about its work; nothing if the models of the project are compiled."""

    def with_ingested(self, reader: CatalogReader) -> CompiledProject:
        """Returns the project with the existing tables of its ingested sources added to its models."""
        models = (*self.models, *list_ingested_models(self.sources, reader))
        return replace(self, models=tuple(sorted(models, key=lambda model: model.table)))

    def with_landing(self) -> CompiledProject:
        """Returns the project with its landing tables added to its models."""
        return replace(self, models=tuple(sorted((*self.models, *self.landing), key=lambda model: model.table)))

    def select_models(self, names: Sequence[str]) -> tuple[Model, ...]:
        """Returns the models with these names, or all if `names` is empty; raises ConfigError for an unknown name."""
        return tuple(self.get_model(name) for name in names) if names else self.models

    def get_model(self, name: str) -> Model:
        """Returns the model with this name; raises ConfigError if there is none."""
        for model in self.models:
            if name in (model.table.name, str(model.table)):
                return model
        known = ", ".join(model.table.name for model in self.models) or "none"
        raise ConfigError(f"no arctic model is named {name}.", actual=known)


def get_target_folder(project_dir: Path) -> Path:
    """Returns the folder to which dbt writes the results of its runs."""
    return project_dir.absolute() / os.environ.get("DBT_TARGET_PATH", _read_target_path(project_dir))


def _read_target_path(project_dir: Path) -> str:
    file = project_dir / "dbt_project.yml"
    written: Any = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else None
    return str(written.get("target-path", "target")) if isinstance(written, dict) else "target"
