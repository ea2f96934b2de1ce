"""The files that describe the models of a project without dbt: a manifest of another adapter, or a folder of SQL."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.manifest_file import Manifest, read_manifest


class ModelFiles(Protocol):
    """Files that are read as a manifest; results of commands are written beside `path`."""

    @property
    def path(self) -> Path: ...

    def read_models(self) -> Manifest:
        """Reads the files; raises ConfigError if they can't be used."""

    def take_stamp(self) -> Hashable:
        """Returns a value that changes with the files; None while they are missing, as while dbt writes them."""

    def open_state(self, folder: Path) -> ModelFiles:
        """Returns the files of another environment in the folder that `--state` names.

        Raises ConfigError if there are no such environments.
        """


@dataclass(frozen=True)
class ManifestFile:
    """A `manifest.json` that dbt has written with any adapter."""

    path: Path

    def read_models(self) -> Manifest:
        return read_manifest(self.path)

    def take_stamp(self) -> Hashable:
        with suppress(FileNotFoundError):
            stat = self.path.stat()
            return stat.st_mtime_ns, stat.st_size
        return None

    def open_state(self, folder: Path) -> ManifestFile:
        return ManifestFile(folder / "manifest.json")


@dataclass(frozen=True)
class SqlFolder:
    """A folder with files `SCHEMA/NAME.sql`, each of which is a model."""

    path: Path

    def read_models(self) -> Manifest:
        # Imported here, since it loads the parser of SQL.
        from arctic_runtime.manifest.sql_files import read_sql_folder

        return read_sql_folder(self.path)

    def take_stamp(self) -> Hashable:
        from arctic_runtime.manifest.sql_files import list_sql_files

        stats = set[tuple[Path, int, int]]()
        for file in list_sql_files(self.path):
            with suppress(FileNotFoundError):
                stat = file.stat()
                stats.add((file, stat.st_mtime_ns, stat.st_size))
        return frozenset(stats) or None

    def open_state(self, folder: Path) -> SqlFolder:
        raise ConfigError(
            "--state needs manifests, whose schemas differ between environments.",
            actual=f"--sql {self.path}, --state {folder}",
            fix="compare versions of tables, or leave --state out",
        )
