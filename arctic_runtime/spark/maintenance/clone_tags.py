"""Drops clones and the tags that keep files for them, and notes that a clone is in use."""

from __future__ import annotations

from arctic_runtime.catalog.observation.clones import observe_clone_tags
from arctic_runtime.model.clone import Clone, list_tagged_tables, read_clone
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import USED_AT
from arctic_runtime.model.state import TableState
from arctic_runtime.plan.cloning.clone_plan import is_use_outdated
from arctic_runtime.spark.tables.commit import drop_tags, set_properties
from arctic_runtime.spark.tables.table_session import TableSession


def find_clone(session: TableSession, state: TableState) -> Clone | None:
    """Returns the clone that the session's model is; None if it is none."""
    log = state.log
    if log is None:
        return None
    newest = log.commits[-1].at_ms if log.commits else 0
    return read_clone(session.model.table, log.properties, newest)


def drop_clone_tags(session: TableSession, clone: Clone) -> None:
    """Drops the tags of the origin for `clone`, which is gone."""
    for seen in observe_clone_tags(session.reader, list_tagged_tables(clone.origin.model)):
        if seen.tag == clone.tag:
            release_tags(session, seen.tags)


def release_tags(session: TableSession, tags: tuple[tuple[TableName, str], ...]) -> None:
    """Drops tags that kept files for a clone; it is no error if some do not exist."""
    for table, tag in tags:
        drop_tags("clone.drop_tag", session.spark(), session.reader, table, [tag])


def note_use(session: TableSession, state: TableState) -> None:
    """Notes that a clone is in use, once a day, since a run that changes nothing leaves no other trace."""
    clone, now_ms = find_clone(session, state), round(1000 * session.now.timestamp())
    if clone is not None and is_use_outdated(clone, now_ms, session.reader.thresholds.expiry):
        set_properties("clone.note_use", session.spark(), session.model.log, {USED_AT: str(now_ms)})
