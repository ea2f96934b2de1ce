"""Builds the rows of dbt's documentation catalog from the metadata of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dbt.adapters.base import BaseRelation
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata
from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.catalog.reader import RelationInfo
from arctic_runtime.model.properties import KIND

if TYPE_CHECKING:
    import agate

_COLUMNS = (
    "table_database",
    "table_schema",
    "table_name",
    "table_type",
    "table_comment",
    "table_owner",
    "column_name",
    "column_index",
    "column_type",
    "column_comment",
    "stats:bytes:label",
    "stats:bytes:value",
    "stats:bytes:description",
    "stats:bytes:include",
    "stats:rows:label",
    "stats:rows:value",
    "stats:rows:description",
    "stats:rows:include",
)
_TEXTS = [name for name in _COLUMNS if not name.startswith("stats:") and name != "column_index"]
_BYTES = "Size of the data files"
_ROWS = "Rows in the current snapshot"
_ARCTIC_LABELS = {
    "changes": "change table",
    "totals": "totals table",
    "base": "arctic table",
    "view": "arctic view",
    "current": "view of current rows",
}


def build_catalog(
    relations: Iterable[BaseRelation], describe: Callable[[BaseRelation], RelationInfo | None]
) -> tuple[agate.Table, list[Exception]]:
    """Builds dbt's documentation catalog of relations that `describe` describes, and lists the errors of others."""
    described, failures = list[tuple[str, RelationInfo | None]](), list[Exception]()
    for relation in sorted(relations, key=lambda r: r.render()):
        try:
            described.append((str(relation.database), describe(relation)))
        except DbtRuntimeError as failure:
            failures.append(failure)
    return build_catalog_table(described), failures


def build_catalog_table(relations: Iterable[tuple[str, RelationInfo | None]]) -> agate.Table:
    """Builds dbt's documentation catalog, with one row per column of each relation, given with its database."""
    from dbt_common.clients.agate_helper import table_from_rows

    rows = [row for database, relation in relations if relation for row in _list_rows(database, relation)]
    return table_from_rows(rows, _COLUMNS, text_only_columns=_TEXTS)


def build_single_table(database: str, relation: RelationInfo) -> CatalogTable:
    """Builds the catalog entry of one relation, in dbt's format for a single relation."""
    properties = relation.properties
    metadata = TableMetadata(
        type=get_label(relation),
        schema=relation.namespace,
        name=relation.name,
        database=database,
        comment=relation.comment,
        owner=properties.get("owner"),
    )
    columns = {
        column.name: ColumnMetadata(type=column.type, index=index, name=column.name, comment=column.comment)
        for index, column in enumerate(relation.columns, start=1)
    }
    stats = {
        name: StatsItem(id=name, label=name, value=value, include=True, description=description)
        for name, value, description in (("bytes", relation.bytes, _BYTES), ("rows", relation.rows, _ROWS))
        if value is not None
    }
    return CatalogTable(metadata=metadata, columns=columns, stats=stats)


def get_label(relation: RelationInfo) -> str:
    """Returns the label of a relation's kind in the documentation."""
    kind = relation.properties.get(KIND, "")
    if kind == "base" and relation.name.endswith("__base"):
        return "base table"
    return _ARCTIC_LABELS.get(kind, relation.kind)


def _list_rows(database: str, relation: RelationInfo) -> Iterator[list[Any]]:
    owner = relation.properties.get("owner")
    stats = [
        *("bytes", relation.bytes, _BYTES, relation.bytes is not None),
        *("rows", relation.rows, _ROWS, relation.rows is not None),
    ]
    for index, column in enumerate(relation.columns, start=1):
        yield [
            *(database, relation.namespace, relation.name, get_label(relation), relation.comment, owner),
            *(column.name, index, column.type, column.comment),
            *stats,
        ]


def find_changed_comments(
    described: RelationInfo | None, description: str | None, columns: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the wanted comments of a relation and of its columns that differ from the stored ones.

    The result has `relation`, None if unchanged, and `columns`, the changed comments by column name.
    """
    lowered = {name.lower(): comment for name, comment in columns.items()}
    changed = {
        column.name: lowered[column.name.lower()]
        for column in (described.columns if described else ())
        if lowered.get(column.name.lower()) not in (None, column.comment or "")
    }
    is_new = description is not None and description != ((described and described.comment) or "")
    return {"relation": description if is_new else None, "columns": changed}
