"""Lists the names of a project that an earlier command has kept, as a shell completes them.

A shell asks at each Tab, so this loads neither dbt nor the runtime, does not check whether the names are still right,
and raises nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dbt.adapters.arctic.project.target_folder import get_target_folder

FILE = "arctic_project.json"
"""File in dbt's target folder in which commands keep the tables of a project; `known_project` writes it."""

MODELS, SOURCES = "models", "sources"

_SAFE = re.compile(r"[\w.-]+")
"""Names that no shell expands, whoever has written the file."""


def list_known_names(project_dir: Path, kind: str) -> Sequence[str]:
    """Lists the names of the tables (`MODELS`) or of the ingested sources (`SOURCES`) of a project; () if unknown."""
    try:
        known: Any = json.loads((get_target_folder(project_dir) / FILE).read_bytes())
        return [name for name in known["names"][kind] if _SAFE.fullmatch(name)]
    except (OSError, ValueError, TypeError, LookupError, yaml.YAMLError, RecursionError):
        return ()
