"""Whose a relation is that has one of a model's names, and whether its creation was finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.views import is_plain
from arctic_runtime.model.properties import APPENDED_KIND, KIND
from arctic_runtime.model.state import ConflictingRelation, ViewState
from arctic_runtime.model.table import Model

if TYPE_CHECKING:
    from pyiceberg.table import Table

_CREATED_IN_TWO_COMMITS = ("base", "changes", APPENDED_KIND)


def is_kind(table: Table, kind: str) -> bool:
    """Whether a table was created as a model's relation of this kind."""
    return table.properties.get(KIND) == kind


def is_unfinished(table: Table | None) -> bool:
    """Whether a table of a model has no snapshot yet, since whoever created it in two commits has done only one."""
    return table is not None and table.properties.get(KIND) in _CREATED_IN_TWO_COMMITS and not table.metadata.snapshots


def find_conflicting_table(
    model: Model, own: Table | None, changes: Table | None, base: Table | None, totals: Table | None
) -> ConflictingRelation | None:
    """Returns the table that has one of a model's names and was not created by it; None if there is none.

    `own` is the table with the model's own name.
    """
    if changes is not None and not is_kind(changes, "changes"):
        return ConflictingRelation(model.table.changes, "table")
    if totals is not None and not is_kind(totals, "totals"):
        return ConflictingRelation(model.table.totals, "table")
    if own is not None and not (is_kind(own, "base") and model.config.merge == "on_write"):
        return ConflictingRelation(model.table, "table", is_plain=is_plain(own.properties))
    if base is not None and not is_kind(base, "base") and model.config.merge == "on_read":
        return ConflictingRelation(model.table.base, "table")
    return None


def find_conflicting_view(model: Model, view: ViewState | None) -> ConflictingRelation | None:
    """Returns the view that has a model's name and does not belong to it as it is configured; None if there is none."""
    if view is not None and (view.head is None or model.config.merge == "on_write"):
        return ConflictingRelation(model.table, "view", view.is_clone, view.is_plain)
    return None
