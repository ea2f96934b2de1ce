"""Where tables and views stand: which of them have changed since an earlier look, for as little as possible."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class ObservedHeads:
    """A text for each relation that exists, another one after each commit to it; `views` are those that are views."""

    heads: Mapping[TableName, str]
    views: frozenset[TableName]


def observe_heads(reader: CatalogReader, relations: Collection[TableName]) -> ObservedHeads:
    """Where these relations stand, without those that do not exist.

    A catalog in a database tells it of all in one query, as of one moment; of another catalog each is loaded. Raises
    CatalogError where the catalog does not answer.
    """
    files = reader.metadata_files({of.schema for of in relations})
    if files is None:
        return _loaded(reader, relations)
    found = {of: files[of.schema, of.name] for of in relations if (of.schema, of.name) in files}
    return ObservedHeads(
        {of: file for of, (_, file) in found.items()},
        frozenset(of for of, (kind, _) in found.items() if kind == "view"),
    )


def _loaded(reader: CatalogReader, relations: Collection[TableName]) -> ObservedHeads:
    """Where relations stand, each loaded by itself; those that a namespace does not list are left out."""
    known, views = list(relations), frozenset[TableName]()
    if reader.lists_views:
        there = {schema: reader.list_relations(schema) for schema in {of.schema for of in relations}}
        known = [of for of in relations if of.name in there[of.schema]]
        views = frozenset(of for of in known if there[of.schema][of.name] == "view")
    with ThreadPoolExecutor(reader.thresholds.engine.parallel_actions, "heads") as pool:
        heads = pool.map(partial(_head, reader, views), known)
        return ObservedHeads({of: head for of, head in zip(known, heads, strict=True) if head is not None}, views)


def _head(reader: CatalogReader, views: frozenset[TableName], relation: TableName) -> str | None:
    """What a relation is now; None where there is none, or where it went meanwhile."""
    from pyiceberg.exceptions import NoSuchTableError, NoSuchViewError

    try:
        if relation in views:
            return reader.view_version(relation.schema, relation.name)
        return str(reader.load_table(relation.schema, relation.name).metadata_location)
    except (NoSuchTableError, NoSuchViewError):
        return None
