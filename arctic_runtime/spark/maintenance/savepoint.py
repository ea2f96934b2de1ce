"""Creates and drops savepoints, which are tags with one name on the base table and on the change table."""

from __future__ import annotations

from collections.abc import Sequence

from arctic_runtime.catalog.observation.tables import observe_savepoints, observe_snapshots
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.refs import Savepoint, SetTag
from arctic_runtime.model.run_summary import find_last_load
from arctic_runtime.model.state import TableState, require_built
from arctic_runtime.plan.maintenance.savepoint import plan_savepoint, plan_savepoint_drop
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import find_version


def make_savepoint(session: TableSession, name: str, version: str | None = None) -> Savepoint:
    """Gives a name to a version, by default the newest; does nothing if this version has the name already.

    Raises ConfigError if the version is not kept, or the name can't be used.
    """
    state = session.reconcile_until_done(session.observe_state())
    changes, _ = require_built(state, session.model.table)
    known = observe_savepoints(session.reader, session.model)
    newest = find_last_load(changes)
    if version is None and newest is None:
        raise ConfigError(f"{session.model.table} has no version yet; run it first")
    commit = newest if version is None else find_version(session.reader, session.model, changes.commits, version)
    base = observe_snapshots(session.reader, session.model.base)
    assert commit is not None
    assert base is not None
    _perform_tags(session, plan_savepoint(session.model, name, commit, base, known))
    return Savepoint(name, commit)


def drop_savepoint(session: TableSession, name: str) -> None:
    """Drops a savepoint, so that its version can expire; raises ConfigError if there is none with this name."""
    tags = plan_savepoint_drop(session.model, name, observe_savepoints(session.reader, session.model))
    _perform_tags(session, tags)


def _perform_tags(session: TableSession, tags: Sequence[SetTag]) -> None:
    for tag in tags:
        perform_step(tag, session.build_context(TableState()))
