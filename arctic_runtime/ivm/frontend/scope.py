"""Resolves the names of columns in a query, and defines the records that hold the names in scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns, transform_expression, unwrap_parens
from arctic_runtime.ivm.algebra.inferred_types import type_of
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Distinct, Node, Projection, list_columns
from arctic_runtime.model.columns import Column, is_same_name

Field = tuple[str, str]
"""Pair of a name that SQL can use for a column, and the column's unique name in the tree."""

NameLookup = Callable[[tuple[str, ...]], exp.Expr | None]
"""Function that resolves a name of SQL, given as the words between its dots, to an expression over the tree's columns.

Returns None if there is no column of this name.
"""

_MOST_COLUMNS = 20_000


@dataclass(frozen=True)
class Relation:
    """Known facts about a table that a query reads.

    `key` are the columns of its primary key: () if the table has exactly one row, None if it has no known key.
    `not_null` are columns besides the key that are never null.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...] | None = None
    not_null: tuple[str, ...] = ()


@dataclass(frozen=True)
class ViewText:
    """Definition of a view."""

    sql: str
    """The view's query."""

    columns: tuple[str, ...] = ()
    """Names that the view gives to the query's columns; empty if it has the query's own names."""

    catalog: str | None = None
    """Catalog of table names without one in `sql`; None for that of the view itself."""

    schema: str | None = None
    """Schema of table names without one in `sql`; None for that of the view itself."""


@dataclass(frozen=True)
class Source:
    """Columns of one table, view or subquery in FROM, and the `qualifier`, such as its alias, that names in SQL use.

    `in_order` is False if Spark returns the columns for `qualifier.*` in another order than `fields`.
    """

    qualifier: tuple[str, ...]
    fields: tuple[Field, ...]
    in_order: bool = True

    @cached_property
    def named(self) -> dict[str, list[str]]:
        """Columns of the tree, grouped by the name, in lower case, that SQL uses for them after the qualifier."""
        return group_by_name(self.fields)


@dataclass(frozen=True)
class Rows:
    """Result of a FROM clause: its tree, and the columns that the select can name.

    `visible` are the columns of `*`, which names without a qualifier refer to; `sources` are the columns that names
    with a qualifier refer to.
    """

    node: Node
    visible: tuple[Field, ...]
    sources: tuple[Source, ...]

    @cached_property
    def named(self) -> dict[str, list[str]]:
        """Columns of the tree, grouped by the name, in lower case, that SQL uses for them without a qualifier."""
        return group_by_name(self.visible)


@dataclass(frozen=True)
class Derived:
    """Tree of a query and the names of its output columns.

    `pending` are conditions of a correlated subquery that also read columns of the outer query. The tree does not
    apply them; the analysis of the outer query must do so.
    """

    node: Node
    fields: tuple[Field, ...]
    pending: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class SelectShape:
    """A select before its select list is applied."""

    node: Node
    """Tree below the select list."""

    items: tuple[tuple[str, exp.Expr], ...]
    """Names and values of the select list."""

    pending: tuple[exp.Expr, ...] = ()
    """As in `Derived`."""

    groups: Literal["none", "one", "many"] = "none"
    """`many` if the select groups by keys, `one` if it aggregates without keys, `none` if it does not aggregate."""

    plain: bool = True
    """False if the select has HAVING, window functions or DISTINCT."""

    distinct: bool = False
    """Whether the select has DISTINCT."""


@dataclass(frozen=True)
class Cte:
    """A CTE with its column aliases, and the context in which names in its query are resolved.

    `derived` and `ordered` cache the CTE's tree, and whether its query orders rows; each has at most one element.
    """

    query: exp.Query
    columns: tuple[str, ...]
    context: QueryContext
    derived: list[Derived] = field(default_factory=list)
    ordered: list[bool] = field(default_factory=list)


@dataclass
class Names:
    """Generates unique column names for a tree, and stores the known types of its columns.

    `never_null` are the columns that are known to be never null.
    """

    types: dict[str, str] = field(default_factory=dict)
    never_null: set[str] = field(default_factory=set)
    _numbers: count[int] = field(default_factory=count)

    def make_fresh(self, name: str, of_type: str | None = None) -> str:
        """Returns a unique column name, as `amount#7` for `amount`, and stores `of_type` as its type if it is known.

        Raises NotMaintained if the tree has too many columns.
        """
        number = next(self._numbers)
        if number > _MOST_COLUMNS:
            raise NotMaintained("UNSUPPORTED", "the query is too large once its views and CTEs are expanded")
        made = f"{name}#{number}"
        if of_type is not None:
            self.types[made] = of_type
        return made

    def type_of(self, value: exp.Expr) -> str | None:
        """Infers the type of an expression over these columns, as Spark writes it; None if it is not certain."""
        return type_of(value, self.types)


@dataclass(frozen=True)
class QueryContext:
    """Tables, views and CTEs that a query may name, and state that the analysis of all its parts shares."""

    relations: Mapping[str, tuple[str, Relation]]
    """Tables by their names in lower case, each with its stored name."""

    views: Mapping[str, tuple[str, ViewText]]
    """Views by their names in lower case, each with its stored name."""

    names: Names
    """Generates the column names of the tree."""

    catalog: str
    """Catalog of names without one."""

    schema: str
    """Schema of names without one."""

    derive: Callable[[exp.Query, QueryContext, NameLookup | None], Derived]
    """Function that analyses a query inside another one.

    It is a field, like `shape`, because the modules would otherwise import each other.
    """

    shape: Callable[[exp.Select, QueryContext, NameLookup | None], SelectShape]
    """Function that analyses a select inside a query, up to its select list."""

    ctes: Mapping[str, Cte] = field(default_factory=dict)
    """CTEs by their names in lower case."""

    declared: frozenset[str] = frozenset()
    """Functions, in lower case, that users define and declare as deterministic."""

    inside: frozenset[str] = frozenset()
    """Views that are being expanded."""

    ordered_views: dict[str, bool] = field(default_factory=dict)
    """Caches whether views order their rows."""

    around: Node | None = None
    """Tree of the outer query, if the query is a subquery in an expression; else None."""


def find_column(rows: Rows, parts: tuple[str, ...]) -> exp.Expr | None:
    """Resolves a name of SQL to a column of `rows`, or to a nested field of one; None if there is no such column.

    `parts` are the words between the dots, such as ("t", "address", "city"): first a qualifier of any length, then the
    column, then nested fields. The longest qualifier that matches wins.
    """
    for depth in range(min(3, len(parts) - 1), -1, -1):
        where = _list_qualified_sources(rows, parts[:depth]) if depth else (rows,)
        matches = tuple(dict.fromkeys(made for part in where for made in part.named.get(parts[depth].lower(), ())))
        if matches:
            return select_nested_field(build_column(require_one(matches, ".".join(parts))), parts[depth + 1 :])
    return None


def select_nested_field(value: exp.Expr, inner: tuple[str, ...]) -> exp.Expr:
    """Builds the access to a nested field of `value` by the path `inner`; without a path it is `value` itself."""
    for part in inner:
        value = exp.Dot(this=value, expression=exp.to_identifier(part, quoted=True))
    return value


def find_matching_fields(fields: Iterable[Field], name: str) -> tuple[str, ...]:
    """Lists the columns of the tree that have the SQL name `name` in `fields`, regardless of case, each once."""
    wanted = name.lower()
    return tuple(dict.fromkeys(made for own, made in fields if own.lower() == wanted))


def group_by_name(fields: Iterable[Field]) -> dict[str, list[str]]:
    """Groups the columns of the tree by their SQL names in `fields`, in lower case."""
    columns_by_name: dict[str, list[str]] = {}
    for own, made in fields:
        columns_by_name.setdefault(own.lower(), []).append(made)
    return columns_by_name


def require_one(matches: tuple[str, ...], name: str) -> str:
    """Returns the only element of `matches`, the columns that the SQL name `name` may refer to.

    Raises NotMaintained if there are several or none.
    """
    if len(matches) != 1:
        what = "could be several columns" if matches else "is no column that is known"
        raise NotMaintained("UNRESOLVED", f"{name} {what}")
    return matches[0]


def matches_qualifier(qualifier: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether a source's `qualifier`, such as (catalog, schema, table), ends in `parts`, regardless of case."""
    own = qualifier[-len(parts) :]
    return len(own) == len(parts) and all(map(is_same_name, own, parts))


def name_parts(node: exp.Expr) -> tuple[str, ...] | None:
    """Returns the words of a column's name, with qualifier and nested fields; None for any other expression.

    Parentheses are ignored as in Spark: `(t).a` is `t.a`. Raises NotMaintained for `t.*`.
    """
    if isinstance(node, exp.Column):
        if isinstance(node.this, exp.Star):
            raise NotMaintained("UNSUPPORTED", "* inside an expression, other than in count(*)")
        return tuple(part.name for part in node.parts)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = name_parts(unwrap_parens(node.this))
        return None if before is None else (*before, node.expression.name)
    return None


def resolve_names(expression: exp.Expr, lookup: NameLookup) -> exp.Expr:
    """Replaces the names in an expression by the expressions to which `lookup` resolves them.

    Names inside subqueries are not changed. Raises NotMaintained if a name can't be resolved.
    """

    def visit_node(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node.copy()
        parts = name_parts(node)
        return node if parts is None else resolve_name(parts, lookup)

    return transform_expression(expression, visit_node)


def resolve_name(parts: tuple[str, ...], lookup: NameLookup) -> exp.Expr:
    """Resolves the name with the words `parts` by `lookup`; raises NotMaintained if there is no such column."""
    resolved = lookup(parts)
    if resolved is None:
        raise NotMaintained("UNRESOLVED", f"{'.'.join(parts)} is not a known column")
    return resolved


def look_up_locally(rows: Rows, outer: NameLookup | None) -> NameLookup:
    """Returns a lookup that resolves names to columns of `rows`, and names that these lack by `outer`.

    `outer` is the lookup of the outer query, None if there is none.
    """

    def look_up(parts: tuple[str, ...]) -> exp.Expr | None:
        resolved = find_column(rows, parts)
        return resolved if resolved is not None or outer is None else outer(parts)

    return look_up


def project_shape(shape: SelectShape, names: Names) -> Derived:
    """Builds the tree of a select by applying its select list and DISTINCT.

    Columns that the pending conditions read are kept as well, after those of the select list.
    """
    available = dict.fromkeys(list_columns(shape.node))
    taken: dict[str, exp.Expr] = {}
    fields = []
    for name, value in shape.items:
        if not available.keys() >= set(list_used_columns(value)):
            raise NotMaintained("SUBQUERY", "a subquery that selects columns of the outer query")
        is_own = isinstance(value, exp.Column)
        made = value.name if is_own else names.make_fresh(name or "expression", names.type_of(value))
        taken[made] = value
        fields.append((name, made))
    pending_columns = {
        name: build_column(name) for part in shape.pending for name in list_used_columns(part) if name in available
    }
    projection = {**taken, **pending_columns}
    is_same = list(projection) == list(available) and all(
        isinstance(value, exp.Column) for value in projection.values()
    )
    node = shape.node if is_same else Projection(shape.node, tuple(projection.items()))
    return Derived(Distinct(node) if shape.distinct else node, tuple(fields), shape.pending)


def _list_qualified_sources(rows: Rows, qualifier: tuple[str, ...]) -> list[Source]:
    return [source for source in rows.sources if matches_qualifier(source.qualifier, qualifier)]
