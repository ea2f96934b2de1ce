"""What models read, directly and through views: the relations whose heads tell that there is something new."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from arctic_runtime.ivm.frontend.reads import Reads, reads
from arctic_runtime.model.names import TableName, changes_read
from arctic_runtime.model.table import Model
from arctic_runtime.service.records import FollowedTables, Heads

ViewSql = Callable[[TableName], "str | None"]


@dataclass(frozen=True)
class FollowedModel:
    """A model, the name that users know it by, and the tables and views that dbt says it reads.

    What its query reads is known without these, unless the query is made by a Python function or can't be parsed.
    """

    model: Model
    name: str
    declared: frozenset[TableName] = frozenset()

    @property
    def table(self) -> TableName:
        return self.model.table


@dataclass(frozen=True)
class Reading:
    """The tables that a model reads, and the views through which it does."""

    tables: frozenset[TableName]
    views: frozenset[TableName]

    def followed(self, model: TableName) -> FollowedTables:
        relations = {relation for table in self.tables - {model} for relation in relations_of(table)}
        return FollowedTables(frozenset(relations | self.views), frozenset(relations_of(model)))


def relations_of(table: TableName) -> tuple[TableName, ...]:
    """A table and what an arctic table has beside it; which of these move tells who has changed it."""
    return (table, table.changes, table.base)


class Readings:
    """What each model reads. A view's text is asked for again only when the view has moved.

    Tables of other catalogs are left out: nothing tells whether they have changed.
    """

    def __init__(self, models: Sequence[FollowedModel], view_sql: ViewSql) -> None:
        self._view_sql = view_sql
        self._models = {of.table: of for of in models}
        self._direct = {of.table: frozenset(_direct(of)) for of in models}
        self._views: dict[TableName, tuple[str, frozenset[TableName]]] = {}
        self.of: dict[TableName, Reading] = {
            model: Reading(tables, frozenset()) for model, tables in self._direct.items()
        }

    def relations(self) -> frozenset[TableName]:
        """Every relation whose head counts."""
        followed = (reading.followed(model) for model, reading in self.of.items())
        return frozenset().union(*(of.reads | of.own for of in followed))

    def resolve(self, heads: Heads, views: Collection[TableName]) -> bool:
        """Looks into the views that there are; returns whether a model reads something else than was known.

        `views` are those among the relations of `heads`.
        """
        found = {model: self._resolved(model, heads, views) for model in self._models}
        differs = found != self.of
        self.of = found
        return differs

    def _resolved(self, model: TableName, heads: Heads, views: Collection[TableName]) -> Reading:
        tables: set[TableName] = set()
        seen: set[TableName] = set()
        waiting = list(self._direct[model])
        while waiting:
            name = waiting.pop()
            if name in tables or name in seen:
                continue
            if name in views and not self._is_arctic(name, heads):
                seen.add(name)
                waiting.extend(self._behind(name, heads[name]))
            else:
                tables.add(name)
        return Reading(frozenset(tables), frozenset(seen))

    def _is_arctic(self, name: TableName, heads: Heads) -> bool:
        """Whether a name is that of a table merged on read, whose view is ours."""
        return name in self._models or name.changes in heads

    def _behind(self, view: TableName, head: str) -> frozenset[TableName]:
        known = self._views.get(view)
        if known is None or known[0] != head:
            sql = self._view_sql(view)
            known = (head, frozenset(_named(reads(sql, view.catalog, view.schema), view)) if sql else frozenset())
            self._views[view] = known
        return known[1]


def _direct(of: FollowedModel) -> Iterator[TableName]:
    model = of.model
    if model.config.input == "changes":
        yield from changes_read(model.sql)
    yield from _named(reads(model.sql, model.table.catalog, model.table.schema), model.table)
    yield from (name for name in of.declared if name.catalog == model.table.catalog)


def _named(read: Reads, home: TableName) -> Iterator[TableName]:
    return (name for name in read.tables if name.catalog == home.catalog and not name.name.startswith("changes("))
