"""Observes views, and whose a relation is that has one of a model's names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader, RelationInfo, find_metadata
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    APPENDED_KIND,
    CLONE_KIND,
    KIND,
    MODEL_TABLE,
    PINNED_BASE,
    PINNED_HEAD,
    PINNED_MERGED,
)
from arctic_runtime.model.state import ConflictingRelation, NamedViewState, ViewState
from arctic_runtime.model.table import Model

if TYPE_CHECKING:
    from arctic_runtime.catalog.json_metadata import LoadedTable


def observe_reader_view(reader: CatalogReader, name: TableName) -> ViewState | None:
    """Returns the state of the view of this name, with the snapshots that it pins if arctic made it.

    None if there is no such view.
    """
    info = _load_view(reader, name)
    if info is None:
        return None
    properties = info.properties
    return ViewState(
        columns=tuple(Column(column.name, column.type) for column in info.columns),
        base_snapshot=_parse_number(properties.get(PINNED_BASE)),
        merged=_parse_number(properties.get(PINNED_MERGED)),
        head=_parse_number(properties.get(PINNED_HEAD)),
        is_clone=properties.get(KIND) == CLONE_KIND,
        is_plain=is_plain(properties),
    )


def is_plain(properties: Mapping[str, str]) -> bool:
    """Whether no property of a table or view says that it belongs to an arctic model."""
    return not any(name.startswith("arctic.") for name in properties)


def read_view_sql(reader: CatalogReader, name: TableName) -> str | None:
    """Returns the query of a view; None if there is no such view, or if its tables are not known.

    They are not if it names tables without a schema, and was created while another schema than its own was the current
    one: Spark finds them there, and whoever reads the query completes their names by the view's schema.
    """
    # Imported here, since it loads the parser of SQL, which the observation of tables needs not.
    from arctic_runtime.sql.spark_sql import has_short_table_names

    info = _load_view(reader, name)
    if info is None or info.sql is None:
        return None
    is_elsewhere = info.default_schema != name.schema and has_short_table_names(info.sql)
    return None if is_elsewhere else info.sql


def _load_view(reader: CatalogReader, name: TableName) -> RelationInfo | None:
    from pyiceberg.exceptions import NoSuchViewError

    try:
        return reader.load_view(name.schema, name.name)
    except (NoSuchViewError, NotImplementedError):
        return None


def observe_named_views(
    reader: CatalogReader, table: TableName, named: Iterable[TableName], kind: str
) -> Iterator[NamedViewState]:
    """Yields the existing view or table for each name in `named`: the names that a view of `table` has or had.

    `kind` says which view: that of current versions or that of change rows. `is_own` says whether a relation is it.
    """
    for name in sorted(named):
        view = _load_view(reader, name)
        if view is not None:
            own = {KIND: kind, MODEL_TABLE: str(table)}
            is_own = all(view.properties.get(key) == value for key, value in own.items())
            columns = tuple(Column(column.name, column.type) for column in view.columns)
            yield NamedViewState(name, "view", columns, is_own)
        elif find_metadata(reader, name) is not None:
            yield NamedViewState(name, "table", (), is_own=False)


def _parse_number(text: str | None) -> int | None:
    return int(text) if text else None


_CREATED_IN_TWO_COMMITS = ("base", "changes", APPENDED_KIND)


def is_kind(table: LoadedTable, kind: str) -> bool:
    """Whether a table was created as a model's relation of this kind."""
    return table.properties.get(KIND) == kind


def is_unfinished(table: LoadedTable | None) -> bool:
    """Whether a table of a model has no snapshot yet, since whoever created it in two commits has done only one."""
    return table is not None and table.properties.get(KIND) in _CREATED_IN_TWO_COMMITS and not table.metadata.snapshots


def find_conflicting_table(
    model: Model,
    own: LoadedTable | None,
    changes: LoadedTable | None,
    base: LoadedTable | None,
    totals: LoadedTable | None,
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
