"""A dbt project that a service keeps fresh in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, Report
from arctic_runtime.service.service import Service
from arctic_runtime.service.shared_state import ServiceWarehouse
from arctic_runtime.spark.engine.session_pool import get_pool
from dbt.adapters.arctic.project.live_project import LiveProject
from dbt.adapters.arctic.project.loaded_project import Location

__all__ = ["LiveProject", "ModelText", "project_in", "served", "write_project"]

ModelText = tuple[Mapping[str, Any], str]
"""What a user writes of a model: its configuration, and its query."""

SETTINGS: Mapping[str, str] = {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}


def write_project(
    folder: Path, sources: str, models: Mapping[str, ModelText], settings: Mapping[str, str] = SETTINGS
) -> None:
    """Writes a project with its sources and models, whose schema is `dws`, for a Spark with these settings."""
    target = {"type": "arctic", "schema": "dws", "warehouse": "./warehouse", "threads": 4}
    target["server_side_parameters"] = dict(settings)
    profiles = {"served": {"target": "dev", "outputs": {"dev": target}}}
    config = {"name": "served", "version": "1.0", "profile": "served"}
    (folder / "profiles.yml").write_text(json.dumps(profiles))
    (folder / "dbt_project.yml").write_text(json.dumps(config))
    (folder / "models").mkdir()
    (folder / "models" / "sources.yml").write_text(sources)
    for model, (config, sql) in models.items():
        declared = ", ".join(f"{key}={value!r}" for key, value in {"materialized": "arctic", **config}.items())
        (folder / "models" / f"{model}.sql").write_text(f"{{{{ config({declared}) }}}}\n{sql}")


def project_in(folder: Path) -> LiveProject:
    """The project of a folder, whose Spark starts with it."""
    return LiveProject(Location(folder, folder), lambda _: None)


@contextmanager
def served(project: LiveProject) -> Iterator[None]:
    """A service follows the project for as long as this lasts; what fails is printed."""
    loaded, reader = project.loaded, project.reader
    warehouse = ServiceWarehouse(reader, get_pool(loaded.profile), ServiceTable("dws", reader))
    service = Service(project, warehouse, listeners=RefreshListeners(print, _print_failure))
    running = threading.Thread(target=service.run_service)
    running.start()
    try:
        yield
    finally:
        service.stop_service()
        running.join()


def _print_failure(report: Report) -> None:
    if report.error:
        print(f"  {report.error}", flush=True)
