"""The folder to which dbt writes the results of its runs, which also has what commands keep between them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml


def get_target_folder(project_dir: Path) -> Path:
    """Returns the folder to which dbt writes the results of its runs."""
    return project_dir.absolute() / os.environ.get("DBT_TARGET_PATH", _read_target_path(project_dir))


def _read_target_path(project_dir: Path) -> str:
    file = project_dir / "dbt_project.yml"
    written: Any = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else None
    return str(written.get("target-path", "target")) if isinstance(written, dict) else "target"
