"""Resets a model: drops all relations that it has created, so that its next run is like its first."""

from __future__ import annotations

from arctic_runtime.catalog.observation.clones import observe_clone
from arctic_runtime.catalog.observation.tables import observe_own
from arctic_runtime.model.state import ConflictingRelation, TableState
from arctic_runtime.model.step import DropRelation
from arctic_runtime.spark.maintenance.clone_tags import drop_clone_tags
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession


def reset_model(session: TableSession) -> tuple[ConflictingRelation, ...]:
    """Drops the relations that a model created, and returns them; relations created by others stay.

    The change table is dropped last, since all other relations can be computed from it: after a crash, another reset
    drops the remaining relations, or the next run creates the dropped ones again. If the model is a clone, the tags
    that its origin has for it are dropped in the end.
    """
    own, clone = observe_own(session.reader, session.model), observe_clone(session.reader, session.model.table)
    for relation in own:
        perform_step(DropRelation(relation.name, relation.kind), session.build_context(TableState()))
    if clone is not None:
        drop_clone_tags(session, clone)
    return own
