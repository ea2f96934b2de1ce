"""dbt projects of `pipelines`, run in this process against the warehouse of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.lake import Lake

PROJECTS = Path(__file__).parent / "pipelines"


def write_profile(bench: Lake, name: str, targets: Iterable[str]) -> Path:
    """Writes a profile with targets, each with a schema of its own; returns the folder of the profile."""
    profile = bench.reader.profile
    folder = Path(profile.catalog_properties["warehouse"]) / "dbt"
    folder.mkdir(exist_ok=True)
    target = {
        "type": "arctic",
        "warehouse": profile.catalog_properties["warehouse"],
        "master": profile.master,
        "server_side_parameters": dict(profile.settings),
        "threads": 1,
        "keep_alive": 0,
    }
    outputs = {target_name: {**target, "schema": schema_of(target_name)} for target_name in targets}
    # What is JSON is YAML too.
    written = {name: {"target": next(iter(outputs)), "outputs": outputs}}
    (folder / "profiles.yml").write_text(json.dumps(written))
    return folder


def schema_of(target: str) -> str:
    return target.replace("-", "_")


def run_dbt(command: str, project: Path, folder: Path, target: str) -> list[dict[str, Any]]:
    """Runs a command of dbt on a project; returns the results of its nodes as `run_results.json` keeps them."""
    from dbt.cli.main import dbtRunner

    output = folder / schema_of(target)
    where = ["--project-dir", str(project), "--profiles-dir", str(folder), "--target", target]
    written = ["--target-path", str(output), "--log-path", str(output / "logs")]
    outcome = dbtRunner().invoke(["--quiet", "--log-level", "none", command, *where, *written])
    if not outcome.success:
        raise RuntimeError(f"dbt {command} of {project.name} failed: {outcome.exception or outcome.result}")
    results: list[dict[str, Any]] = json.loads((output / "run_results.json").read_text())["results"]
    return results
