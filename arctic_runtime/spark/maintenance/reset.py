"""Resets a model: drops all relations that it has created, so that its next run is like its first."""

from __future__ import annotations

from arctic_runtime.catalog.observation.tables import observe_own
from arctic_runtime.model.state import ConflictingRelation, TableState
from arctic_runtime.model.step import DropRelation
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession


def reset_model(session: TableSession) -> tuple[ConflictingRelation, ...]:
    """Drops the relations that a model created, and returns them; relations created by others stay.

    The change table is dropped last, since all other relations can be computed from it: after a crash, another reset
    drops the remaining relations, or the next run creates the dropped ones again.
    """
    own = observe_own(session.reader, session.model)
    for relation in own:
        perform_step(DropRelation(relation.name, relation.kind), session.build_context(TableState()))
    return own
