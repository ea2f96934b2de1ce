"""Lists the files of a folder or bucket by its storage's API, without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from arctic_runtime.errors import ConfigError, SourceError

_ALIASES = {"s3a": "s3", "s3n": "s3"}
_FILE_SCHEME = re.compile(r"^file:(//)?")
_HIDDEN = (".", "_")
_UNFINISHED = "._COPYING_"


@dataclass(frozen=True, order=True)
class SourceFile:
    """A file: its path below the source's folder, its size in bytes, and its modification time.

    The modification time is in microseconds since 1970.
    """

    path: str
    bytes: int
    modified: int


class Folder:
    """A folder with files to read, named by a URI (`file:`, `s3:`, `gs:`, …) or a path on this machine.

    `properties` are pyiceberg's, such as `s3.endpoint`. Raises ConfigError if no library for the scheme is installed.
    """

    def __init__(self, location: str, properties: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(location)
        self.is_local = parts.scheme in ("", "file")
        if self.is_local:
            self._root = str(Path(_FILE_SCHEME.sub("", location)).expanduser().absolute())
            self._path, self.location = self._root, f"file://{self._root}"
        else:
            self._root, self._path = f"{parts.netloc}{parts.path}".rstrip("/"), parts.path.rstrip("/")
            self.location = location.rstrip("/")
        self._files = _open_file_system(parts.scheme, parts.netloc, properties or {}, location)

    def list_files(self) -> tuple[SourceFile, ...]:
        """Lists all files, including those in subfolders, in the order of their paths.

        Files are left out if their name or the name of a subfolder begins with `.` or `_`: writers give such names to
        unfinished files. Raises SourceError if the folder is missing or can't be listed.
        """
        from pyarrow.fs import FileSelector

        try:
            file_infos = self._files.get_file_info(FileSelector(self._root, recursive=True))
        except OSError as error:
            raise SourceError(
                "The files of a source can't be listed.",
                where=self.location,
                actual=str(error),
                fix="check that the folder exists and may be read",
            ) from error
        below = len(self._root) + 1
        files = [
            SourceFile(one.path[below:], one.size, one.mtime_ns // 1000)
            for one in file_infos
            if one.is_file and _is_finished(one.path[below:])
        ]
        if self.is_local:
            _check_names(files, self.location)
        return tuple(sorted(files))

    def to_uri(self, path: str) -> str:
        """Returns the URI of the file at `path` below the folder, without percent escapes, as Hadoop expects it."""
        return f"{self.location}/{path}"

    def to_path(self, uri: str) -> str:
        """Returns the path below the folder of a file, from its URI with percent escapes, as Spark returns it."""
        return unquote(urlsplit(uri).path).removeprefix(f"{self._path}/")


def _open_file_system(scheme: str, netloc: str, properties: Mapping[str, str], location: str) -> Any:
    if scheme in ("", "file"):
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem()
    from pyiceberg.io.pyarrow import PyArrowFileIO

    try:
        return PyArrowFileIO(dict(properties)).fs_by_scheme(_ALIASES.get(scheme, scheme), netloc)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            "The location of a source can't be read.",
            where=location,
            expected="a path, or a URI whose scheme pyarrow knows, such as s3, gs or hdfs",
            actual=str(error),
        ) from error


def _is_finished(path: str) -> bool:
    is_hidden = any(part.startswith(_HIDDEN) for part in PurePosixPath(path).parts)
    return not is_hidden and not path.endswith(_UNFINISHED)


def _check_names(files: Iterable[SourceFile], where: str) -> None:
    wrong = next((file for file in files if ":" in file.path or "\n" in file.path), None)
    if wrong is not None:
        raise SourceError(
            "Spark can't read a local file of this name.",
            where=where,
            expected="a name without a colon or a line feed",
            actual=repr(wrong.path),
            fix="rename the file",
        )
