"""Detects edits of a project from the modification times and sizes of its files, without reading them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

Stamp = frozenset[tuple[str, int, int]]


class ProjectFiles:
    """The files that dbt reads from a project; of installed packages only the file that lists them."""

    def __init__(self, project_dir: Path, folders: Sequence[str]) -> None:
        """Records the current files; `folders` are the project's configured folders of models, macros and so on."""
        self._project_dir = project_dir
        self._folders = folders
        self._seen = self._take_stamp()

    def has_changed(self) -> bool:
        """Whether files have changed since the last call, or since this object was created.

        Several edits since then count once.
        """
        before, self._seen = self._seen, self._take_stamp()
        return before != self._seen

    def _take_stamp(self) -> Stamp:
        return frozenset(self._list_stats())

    def _list_stats(self) -> Iterator[tuple[str, int, int]]:
        yield from _list_stats(self._project_dir, is_deep=False)
        for folder in self._folders:
            yield from _list_stats(self._project_dir / folder, is_deep=True)


_OF_PROJECT = (".yml", ".yaml")


def _list_stats(folder: Path, is_deep: bool) -> Iterator[tuple[str, int, int]]:
    """Yields path, modification time (ns) and size of the YAML files in `folder`.

    If `is_deep`, yields these of all files below `folder` except those in hidden folders.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir():
                if is_deep and not entry.name.startswith("."):
                    yield from _list_stats(Path(entry.path), is_deep)
            elif is_deep or entry.name.endswith(_OF_PROJECT):
                stat = entry.stat()
                yield entry.path, stat.st_mtime_ns, stat.st_size
        except FileNotFoundError:
            continue
