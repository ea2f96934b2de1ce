"""Finds versions of a table by a number or by the name of a savepoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arctic_runtime.catalog.observation.tables import observe_savepoints
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.state import Commit
from arctic_runtime.plan.maintenance.savepoint import find_savepoint
from arctic_runtime.spark.tables.table_session import TableSession


def find_version(session: TableSession, commits: Sequence[Commit], version: str) -> Commit:
    """Returns the commit of `version`, a number or a savepoint's name; raises ConfigError if it is not kept.

    `commits` are the commits of the change table.
    """
    known = observe_savepoints(session.reader, session.model)
    if not version.isdecimal():
        return find_savepoint(session.model, version, known).commit
    tagged = (tag.commit for tag in known)
    return _find_known_version(session, (*commits, *tagged), int(version))


def _find_known_version(session: TableSession, commits: Iterable[Commit], version: int) -> Commit:
    """Returns the one of `commits` whose snapshot id is `version`; raises ConfigError if there is none."""
    for commit in commits:
        if commit.version.snapshot == version:
            return commit
    raise ConfigError(
        f"{session.model.table} has no version {version}, or it has expired.",
        fix=f"`arctic history {session.model.table.name}` shows the versions that are kept",
    )
