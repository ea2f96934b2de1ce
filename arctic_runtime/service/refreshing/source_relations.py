"""Determines the relations that models read, directly and through views, so that new versions are noticed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from arctic_runtime.ivm.frontend.reads import Reads, find_reads
from arctic_runtime.model.names import TableName, list_changes_read
from arctic_runtime.model.table import Model
from arctic_runtime.service.refreshing.model_records import FollowedTables, Heads

ViewSql = Callable[[TableName], "str | None"]


@dataclass(frozen=True)
class FollowedModel:
    """A model, its name for users, and `declared`, the tables and views that the model reads according to dbt.

    Normally the relations are taken from the parsed query; `declared` is needed if a Python function computes the rows,
    or if the query can't be parsed.
    """

    model: Model
    name: str
    declared: frozenset[TableName] = frozenset()

    @property
    def table(self) -> TableName:
        return self.model.table


@dataclass(frozen=True)
class ModelReads:
    """The tables that a model reads, and the views through which it reads them."""

    tables: frozenset[TableName]
    views: frozenset[TableName]

    def to_followed_tables(self, model: TableName) -> FollowedTables:
        relations = {relation for table in self.tables - {model} for relation in list_relations(table)}
        return FollowedTables(frozenset(relations | self.views), frozenset(list_relations(model)))


def list_relations(table: TableName) -> tuple[TableName, ...]:
    """Returns the names of a table, its change table and its base; every change of the table changes one of them."""
    return (table, table.changes, table.base)


class Readings:
    """The relations that each model reads; a view's SQL is loaded again only if the view was replaced.

    Tables of other catalogs are left out, since their changes can't be observed.
    """

    def __init__(self, models: Sequence[FollowedModel], view_sql: ViewSql) -> None:
        self._view_sql = view_sql
        self._models = {followed_model.table: followed_model for followed_model in models}
        self._direct = {
            followed_model.table: frozenset(_list_direct_reads(followed_model)) for followed_model in models
        }
        self._views: dict[TableName, tuple[str, frozenset[TableName]]] = {}
        self.by_model: dict[TableName, ModelReads] = {
            model: ModelReads(tables, frozenset()) for model, tables in self._direct.items()
        }

    def list_all_relations(self) -> frozenset[TableName]:
        """Returns all relations that any model reads, and the models' own relations."""
        followed = (reading.to_followed_tables(model) for model, reading in self.by_model.items())
        return frozenset().union(*(reading_tables.reads | reading_tables.own for reading_tables in followed))

    def resolve_views(self, heads: Heads, views: Collection[TableName]) -> bool:
        """Replaces views by the tables that they read; returns whether `by_model` is different from before.

        `heads` are the current metadata files of relations, and `views` those relations that are views.
        """
        resolved = {model: self._resolve_model_reads(model, heads, views) for model in self._models}
        differs = resolved != self.by_model
        self.by_model = resolved
        return differs

    def _resolve_model_reads(self, model: TableName, heads: Heads, views: Collection[TableName]) -> ModelReads:
        tables: set[TableName] = set()
        seen: set[TableName] = set()
        waiting = list(self._direct[model])
        while waiting:
            name = waiting.pop()
            if name in tables or name in seen:
                continue
            if name in views and not self._is_arctic(name, heads):
                seen.add(name)
                waiting.extend(self._list_behind_view(name, heads[name]))
            else:
                tables.add(name)
        return ModelReads(frozenset(tables), frozenset(seen))

    def _is_arctic(self, name: TableName, heads: Heads) -> bool:
        """Whether the view `name` is the table of an arctic model with `merge: on_read`."""
        return name in self._models or name.changes in heads

    def _list_behind_view(self, view: TableName, head: str) -> frozenset[TableName]:
        known = self._views.get(view)
        if known is None or known[0] != head:
            sql = self._view_sql(view)
            known = (
                head,
                frozenset(_list_named_tables(find_reads(sql, view.catalog, view.schema), view)) if sql else frozenset(),
            )
            self._views[view] = known
        return known[1]


def _list_direct_reads(followed_model: FollowedModel) -> Iterator[TableName]:
    model = followed_model.model
    if model.config.input == "changes":
        yield from list_changes_read(model.sql)
    yield from _list_named_tables(find_reads(model.sql, model.table.catalog, model.table.schema), model.table)
    yield from (name for name in followed_model.declared if name.catalog == model.table.catalog)


def _list_named_tables(read: Reads, home: TableName) -> Iterator[TableName]:
    return (name for name in read.tables if name.catalog == home.catalog and not name.name.startswith("changes("))
