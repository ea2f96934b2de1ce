"""Asks dbt which files it reads for a project, and whether its result depends on anything else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dbt.adapters.arctic.project.cache.inputs import ProjectRequest, WatchedFiles


@dataclass(frozen=True)
class DbtInputs:
    """The files that dbt reads for a project, and the names of its profile and target."""

    watched: WatchedFiles
    profile: str
    target: str


def read_dbt_inputs(request: ProjectRequest) -> DbtInputs | None:
    """Reads the configuration of a project; None if dbt can't, or if its result may depend on more than files."""
    from dbt.cli.flags import Flags
    from dbt.cli.types import Command
    from dbt.config.runtime import RuntimeConfig
    from dbt.flags import set_flags
    from dbt.plugins import get_plugin_manager
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    options = {"project_dir": request.project_dir, "profiles_dir": request.profiles_dir, "target": request.target}
    try:
        flags: Any = Flags.from_dict(Command.PARSE, {key: str(value) for key, value in options.items() if value})
        set_flags(flags)
        set_invocation_context(os.environ)
        config: Any = RuntimeConfig.from_args(flags)
        packages = tuple(config.load_dependencies().values())
        plugins = get_plugin_manager(config.project_name)
    except (DbtBaseException, OSError, ValueError):
        return None
    # Without partial parsing, users expect that Jinja which reads the clock is computed by every command.
    if not flags.PARTIAL_PARSE or plugins.hooks.get("get_nodes"):
        return None
    watched = WatchedFiles(
        str(Path(flags.PROFILES_DIR, "profiles.yml").absolute()),
        tuple(sorted({str(Path(package.project_root).absolute()) for package in packages})),
        tuple(sorted({folder for package in packages for folder in _list_folders(package)})),
        str(Path(config.project_root, config.packages_install_path).absolute()),
    )
    return DbtInputs(watched, str(config.profile_name), str(config.target_name))


def _list_folders(package: Any) -> Iterator[str]:
    """Yields all folders of a package with models, macros and whatever else a version of dbt has folders for."""
    for described in fields(package):
        if described.name.endswith("_paths"):
            for folder in getattr(package, described.name):
                yield str(Path(package.project_root).absolute() / folder)
