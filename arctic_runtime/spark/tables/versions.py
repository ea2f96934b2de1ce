"""Looks up versions of a table, and windows between two versions, by snapshot ids or by names of savepoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from arctic_runtime.catalog.observation.tables import observe_model, observe_savepoints
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column, Names
from arctic_runtime.model.files.expiry import read_trimmed_age
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.maintenance.savepoint import find_savepoint


@dataclass(frozen=True)
class VersionWindow:
    """The window between two versions of a table, with the commits in it and old names of columns.

    `commits` are the commits of the window that added change rows, oldest first; None if some of them have expired, or
    if the window has no start. `old_column_names` has the former names of columns by snapshot. `columns` are those of
    the change table now, and `keeps_all` says whether one of its commits may have several rows of a key.
    """

    window: Window
    commits: tuple[Commit, ...] | None
    old_column_names: Mapping[int, Names] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    keeps_all: bool = False


def find_window(reader: CatalogReader, model: Model, start: int | str | None, end: int | str | None) -> VersionWindow:
    """Returns the window after version `start` and up to `end`, each a snapshot id or the name of a savepoint.

    None for `start` means the oldest change row that is kept, None for `end` the newest version. Raises ConfigError if
    there is no such version, if `start` is newer than `end`, or if some change rows between them have been deleted.
    """
    changes = observe_model(reader, model).changes
    commits = changes.commits if changes else ()
    if changes is None or not commits:
        raise ConfigError(f"{model.table} has no versions yet.", fix="refresh it")
    last = commits[-1] if end is None else find_version(reader, model, commits, str(end))
    first = None if start is None else find_version(reader, model, commits, str(start))
    if first is not None and first.version.sequence > last.version.sequence:
        raise ConfigError(f"{model.table}: version {start} is newer than version {end}; give the older version first")
    is_whole = last in commits and (first is None or first in commits)
    if first is not None and not is_whole and first.version.sequence < read_trimmed_age(changes.properties).sequence:
        raise ConfigError(
            f"{model.table}: some changes since version {start} have been deleted.",
            fix="give a later version; `retention: changes` sets how long changes are kept",
        )
    window = Window(str(model.table.changes), None if first is None else first.version, last.version)
    between = (
        tuple(
            commit
            for commit in changes.list_commits_after(window.start)
            if commit.version.sequence <= window.end.sequence
        )
        if is_whole and first is not None
        else None
    )
    return VersionWindow(window, between, changes.old_column_names, changes.columns, changes.keeps_all)


def find_version(reader: CatalogReader, model: Model, commits: Sequence[Commit], version: str) -> Commit:
    """Returns the commit of `version`, a snapshot id or a savepoint's name; raises ConfigError if it is not kept.

    `commits` are the commits of the change table.
    """
    known = observe_savepoints(reader, model)
    if not version.isdecimal():
        return find_savepoint(model, version, known).commit
    tagged = (tag.commit for tag in known)
    return _find_known_version(model, (*commits, *tagged), int(version))


def _find_known_version(model: Model, commits: Iterable[Commit], version: int) -> Commit:
    """Returns the one of `commits` whose snapshot id is `version`; raises ConfigError if there is none."""
    for commit in commits:
        if commit.version.snapshot == version:
            return commit
    raise ConfigError(
        f"{model.table} has no version {version}, or it has expired.",
        fix=f"`arctic history {model.table.name}` shows the versions that are kept",
    )
