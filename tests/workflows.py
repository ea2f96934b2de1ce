"""The workflows of docs/ci.md, and the commands of dbt and arctic in them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)
_COMMAND = re.compile(r"(?:dbt|arctic) .*")


def list_blocks(language: str) -> list[str]:
    """Lists the blocks of the page in a language."""
    return [match["text"] for match in _BLOCK.finditer(PAGE) if match["language"] == language]


def load_profile() -> dict[str, Any]:
    profile: dict[str, Any] = yaml.safe_load(list_blocks("yaml")[0])
    return profile


def load_github() -> dict[str, dict[str, Any]]:
    """Loads the workflows of GitHub by their names."""
    return {workflow["name"]: workflow for workflow in map(yaml.safe_load, list_blocks("yaml")[1:3])}


def load_gitlab() -> dict[str, Any]:
    workflow: dict[str, Any] = yaml.safe_load(list_blocks("yaml")[3])
    return workflow


def list_github_commands(name: str) -> list[str]:
    """Lists the commands of dbt and arctic in the order of the steps of a workflow, which has one job of its name."""
    lines = [step["run"] for step in load_github()[name]["jobs"][name]["steps"] if "run" in step]
    return [match[0] for line in lines if (match := _COMMAND.match(line)) is not None]


def list_gitlab_commands(job: str) -> list[str]:
    """Lists the commands of dbt and arctic in the order of the script of a job."""
    return [match[0] for line in load_gitlab()[job]["script"] if (match := _COMMAND.match(line)) is not None]


def copy_sample(folder: Path, method: Mapping[str, Any], spark_settings: Mapping[str, str]) -> Path:
    """Copies the sample project into a folder, with a warehouse there and the targets `dev` and `branch`."""
    project = folder / "project"
    shutil.copytree(
        ROOT / "sample_project", project, ignore=shutil.ignore_patterns("live", "target", "warehouse", "__pycache__")
    )
    target = {
        "type": "arctic",
        **method,
        "warehouse": str(folder / "warehouse"),
        "threads": 2,
        "server_side_parameters": spark_settings,
    }
    outputs = {"dev": {**target, "schema": "dwd"}, "branch": {**target, "schema": "pr_12"}}
    profile = {"nyc_flights": {"target": "dev", "outputs": outputs}}
    (project / "profiles.yml").write_text(yaml.safe_dump(profile))
    return project
