"""Looks up versions of a table by a number or a name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arctic_runtime.catalog.observation.tables import observe_savepoints
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.state import Commit
from arctic_runtime.plan.maintenance.savepoint import find_savepoint
from arctic_runtime.spark.tables.table_session import TableSession


def find_version(session: TableSession, commits: Sequence[Commit], version: str) -> Commit:
    """Returns the commit of `version`, a number or the name of a savepoint; raises ConfigError if there is none."""
    known = observe_savepoints(session.reader, session.model)
    if not version.isdecimal():
        return find_savepoint(session.model, version, known).commit
    tagged = (tag.commit for tag in known)
    return _find_known_version(session, (*commits, *tagged), int(version))


def _find_known_version(session: TableSession, commits: Iterable[Commit], version: int) -> Commit:
    """Returns the commit among `commits` whose version has the number `version`; raises ConfigError if none has."""
    for commit in commits:
        if commit.version.snapshot == version:
            return commit
    raise ConfigError(
        f"{session.model.table} has no version {version}, or it has expired.",
        fix=f"`arctic history {session.model.table.name}` shows the versions that are kept",
    )
