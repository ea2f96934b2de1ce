"""Observes views through pyiceberg: those of tables merged on read, those of current versions, and views of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from arctic_runtime.catalog.reader import CatalogReader, RelationInfo
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    CLONE_KIND,
    KIND,
    MODEL_TABLE,
    PINNED_BASE,
    PINNED_HEAD,
    PINNED_MERGED,
)
from arctic_runtime.model.state import NamedViewState, ViewState


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
        elif _is_table(reader, name):
            yield NamedViewState(name, "table", (), is_own=False)


def _is_table(reader: CatalogReader, name: TableName) -> bool:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        reader.load_table(name.schema, name.name)
    except NoSuchTableError:
        return False
    return True


def _parse_number(text: str | None) -> int | None:
    return int(text) if text else None
