"""Starting a model over: everything that it has written is dropped, and its next run is its first."""

from __future__ import annotations

from arctic_runtime.catalog.observation.tables import observe_own
from arctic_runtime.model.state import ConflictingRelation, TableState
from arctic_runtime.model.step import DropRelation
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession


def reset_model(session: TableSession) -> tuple[ConflictingRelation, ...]:
    """Drops the relations that a model made, and returns them; nothing of another's is touched.

    The change table, which all else follows, goes last: a reset that dies is finished by another one, or undone by
    the next run.
    """
    own = observe_own(session.reader, session.model)
    for relation in own:
        perform_step(DropRelation(relation.name, relation.kind), session.build_context(TableState()))
    return own
