"""The project that the options of a command name: one that dbt loads, or files that are read without dbt."""

from __future__ import annotations

import argparse
from pathlib import Path

from arctic_runtime.manifest.model_files import ManifestFile, ModelFiles, SqlFolder
from dbt.adapters.arctic.project.target_folder import get_target_folder


def find_model_files(options: argparse.Namespace) -> ModelFiles | None:
    """Returns the files that the options of a command name; None if dbt loads the project."""
    if options.manifest is not None:
        return ManifestFile(options.manifest)
    return None if options.sql is None else SqlFolder(options.sql)


def get_results_folder(options: argparse.Namespace) -> Path:
    """Returns the folder with results of commands: that of dbt, or for a project without dbt the one of its files."""
    files = find_model_files(options)
    return get_target_folder(options.project_dir) if files is None else files.path.absolute().parent
