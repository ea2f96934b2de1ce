"""Turns LIMIT and OFFSET into a condition on the row number, and refuses results that depend on the order of rows.

With ties in ORDER BY, or without one, SQL does not determine the rows that LIMIT returns, so NotMaintained is raised.

SQL guarantees only the order of the outermost query, and the operator tree has no order at all. But Spark mostly keeps
the order of a subquery: over sorted rows `collect_list` returns a sorted list, and `row_number` breaks ties by the
order. Such a result could not be maintained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.aggregate_functions import find_aggregate_function
from arctic_runtime.ivm.algebra.expressions import build_column, unwrap_parens
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Filter, WindowColumns
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.functions import check_clause_args, is_aggregate, parse_query, walk_outside_queries
from arctic_runtime.ivm.frontend.scope import Derived, Names, QueryContext, ViewText, find_matching_fields
from arctic_runtime.ivm.frontend.type_coercion import mark_unlike

_NEEDED = "without an ORDER BY that tells all rows apart, as by a primary key"
_ORDER = "__arctic_order_"
_NUMBER = "__arctic_limit"


def has_limit(query: exp.Query) -> bool:
    return bool(query.args.get("limit") or query.args.get("offset"))


@dataclass(frozen=True)
class OrderedQuery:
    """A query without its ORDER BY, LIMIT and OFFSET, and these.

    `query` has further columns at the end of its select list for items of the order that it does not show. `items` has
    for each item of the order its position or its name in the select list, or the added expression. `least` is the
    number of rows that OFFSET leaves out, `most` that of LIMIT; None without the clause.
    """

    query: exp.Query
    order: exp.Order | None
    items: tuple[int | str | exp.Expr, ...]
    least: int | None
    most: int | None

    def find_items(self, fields: Sequence[tuple[str, str]]) -> tuple[Sequence[tuple[str, str]], list[str]]:
        """Returns the fields of the query that it shows, and the columns of the tree by which it is ordered.

        `fields` are the output columns of `query`. Raises NotMaintained if an item is no column of it.
        """
        hidden = [item for item in self.items if isinstance(item, exp.Expr)]
        shown = fields[: len(fields) - len(hidden)]
        added = iter(fields[len(shown) :])
        by = [_find_field(item, shown) if isinstance(item, int | str) else next(added)[1] for item in self.items]
        return shown, by


def split_order(query: exp.Query) -> OrderedQuery:
    """Takes ORDER BY, LIMIT and OFFSET off a query; raises NotMaintained if these can't be read."""
    least, most = _read_count(query, "offset"), _read_count(query, "limit")
    whole, order = _drop_order(query), query.args.get("order")
    items = () if order is None else tuple(_resolve_order_item(part, whole) for part in order.expressions)
    hidden = [part for part in items if isinstance(part, exp.Expr)]
    if hidden:
        _add_hidden_columns(whole, hidden)
    return OrderedQuery(whole, order, items, least, most)


def derive_limited(query: exp.Query, derive: Callable[[exp.Query], Derived], names: Names) -> Derived:
    """Builds the tree of a query with LIMIT or OFFSET; `derive` builds the tree of the query without these clauses."""
    if _read_count(query, "offset") is None and _read_count(query, "limit") is None:
        return derive(_drop_order(query))
    ordered = split_order(query)
    if ordered.order is None:
        raise NotMaintained("LIMIT", f"{_get_clause_name(query)} {_NEEDED}")
    derived = derive(ordered.query)
    if derived.pending:
        raise NotMaintained("LIMIT", f"{_get_clause_name(query)} in a correlated subquery")
    shown, by = ordered.find_items(derived.fields)
    if not is_unique(mark_unlike(derived.node, names), by):
        raise NotMaintained("LIMIT", f"{_get_clause_name(query)} {_NEEDED}")
    order = _resolve_order(ordered.order, by)
    return Derived(_filter_first_rows(derived, order, ordered.least or 0, ordered.most, names), tuple(shown))


def _drop_order(query: exp.Query) -> exp.Query:
    whole = query.copy()
    for part in ("limit", "offset", "order"):
        whole.set(part, None)
    return whole


def is_number_of_limit(name: str) -> bool:
    """Whether the column `name` of a tree is the row number that a LIMIT or OFFSET compares."""
    return name.startswith(f"{_NUMBER}#")


def _filter_first_rows(derived: Derived, order: exp.Order, least: int, most: int | None, names: Names) -> Filter:
    number = names.make_fresh(_NUMBER, "int")
    over = exp.Window(this=exp.RowNumber(), order=order, over="OVER")
    bounds: list[exp.Expr] = [exp.GT(this=build_column(number), expression=exp.Literal.number(least))] if least else []
    if most is not None:
        bounds.append(exp.LTE(this=build_column(number), expression=exp.Literal.number(least + most)))
    return Filter(WindowColumns(derived.node, (), ((number, over),)), exp.and_(*bounds) if bounds else exp.true())


def _resolve_order(order: exp.Order, by: Sequence[str]) -> exp.Order:
    resolved = order.copy()
    for part, name in zip(resolved.expressions, by, strict=True):
        part.set("this", build_column(name))
    return resolved


def _read_count(query: exp.Query, clause: str) -> int | None:
    """Returns the number in a LIMIT or OFFSET clause; None if the clause is missing or is ALL."""
    clause_node = query.args.get(clause)
    if clause_node is None or (
        isinstance(clause_node.expression, exp.Var) and clause_node.expression.name.upper() == "ALL"
    ):
        return None
    check_clause_args(clause_node, {"expression"})
    value = clause_node.expression
    if not isinstance(value, exp.Literal) or not value.is_int:
        raise NotMaintained("LIMIT", f"{clause.upper()} of an expression")
    return int(value.name)


def _resolve_order_item(part: exp.Expr, query: exp.Query) -> int | str | exp.Expr:
    """Resolves an ORDER BY item to a position or a name in the select list, or to an expression to add to that list."""
    written = unwrap_parens(part.this) if isinstance(part, exp.Ordered) else unwrap_parens(part)
    if isinstance(written, exp.Literal) and written.is_int:
        return int(written.name)
    aliases = _collect_aliases(query)
    if (
        isinstance(written, exp.Column)
        and not written.table
        and written.name.lower() in {*aliases, *_list_plain_columns(query)}
    ):
        return written.name
    if not isinstance(query, exp.Select):
        if isinstance(written, exp.Column) and not written.table:
            return written.name
        raise NotMaintained("LIMIT", "LIMIT over an expression of a set operation; put it into the select lists")
    return _build_hidden_item(written, query, aliases)


def _build_hidden_item(written: exp.Expr, query: exp.Select, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
    group = query.args.get("group")
    if query.args.get("distinct") or (group is not None and group.args.get("all")):
        raise NotMaintained("LIMIT", "LIMIT over an order by what a select with DISTINCT or GROUP BY ALL does not show")
    if written.find(exp.Query, exp.Window) or isinstance(written, exp.Var | exp.Star):
        raise NotMaintained("LIMIT", "LIMIT over an order by a subquery, a window function or all columns")
    item = written.copy()
    read = [part for part in item.find_all(exp.Column) if not part.table and part.name.lower() in aliases]
    if read and any(map(is_aggregate, item.walk())):
        raise NotMaintained("LIMIT", "LIMIT over an order by an aggregate that reads what may be an alias")
    for part in read:
        part.replace(exp.paren(aliases[part.name.lower()].copy()))
    return item


def _collect_aliases(query: exp.Query) -> dict[str, exp.Expr]:
    """Maps the aliases in a query's select list, in lower case, to their expressions."""
    if not isinstance(query, exp.Select):
        return {}
    named = [part for part in query.expressions if isinstance(part, exp.Alias)]
    return {part.alias.lower(): part.this for part in named}


def _list_plain_columns(query: exp.Query) -> set[str]:
    """Names, in lower case, of the columns that a query selects without an alias."""
    shown = query.expressions if isinstance(query, exp.Select) else []
    return {part.name.lower() for part in shown if isinstance(part, exp.Column)}


def _add_hidden_columns(query: exp.Query, hidden: Sequence[exp.Expr]) -> None:
    for place, part in enumerate(hidden):
        query.append("expressions", exp.alias_(part, f"{_ORDER}{place}", quoted=True))


def _find_field(asked: int | str, fields: Sequence[tuple[str, str]]) -> str:
    if isinstance(asked, str):
        matches = find_matching_fields(fields, asked)
    else:
        matches = (fields[asked - 1][1],) if 1 <= asked <= len(fields) else ()
    if len(matches) != 1:
        raise NotMaintained("UNRESOLVED", f"ORDER BY {asked} is not one column of the select list")
    return matches[0]


def _get_clause_name(query: exp.Query) -> str:
    return "LIMIT" if query.args.get("limit") else "OFFSET"


_CLAUSES = ("order", "sort", "cluster", "distribute")

_RANKS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
"""Window functions whose result does not depend on the order of rows that are equal by ORDER BY."""


def check_order(select: exp.Select, context: QueryContext) -> None:
    """Raises NotMaintained if aggregates or window functions of a select may depend on the ORDER BY of a subquery."""
    if any(map(_is_order_dependent, _list_own_parts(select))) and _is_ordered_below(select, context):
        raise NotMaintained(
            "NOT_REPEATABLE",
            "an aggregate depends on the order of a subquery; sort in the aggregate instead, as in "
            "`array_sort(collect_list(…))` or `row_number() over (… order by …)`",
        )


def _list_own_parts(select: exp.Select) -> Iterable[exp.Expr]:
    clauses = (*select.expressions, select.args.get("having"))
    return (part for clause in clauses if clause is not None for part in walk_outside_queries(clause))


def _is_order_dependent(part: exp.Expr) -> bool:
    if not isinstance(part, exp.Window) and not is_aggregate(part):
        return False
    if isinstance(part, exp.Window) and part.args.get("spec"):
        return True
    call = part
    while isinstance(call, exp.Window | exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        call = call.this
    function = find_aggregate_function(call)
    return not isinstance(call, _RANKS) if function is None else not function.ignores_row_order


def _is_ordered_below(select: exp.Select, context: QueryContext) -> bool:
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return any(_has_order(clause, context) for clause in clauses if clause is not None)


def _has_order(part: exp.Expr, context: QueryContext) -> bool:
    """Whether a query inside `part`, or a CTE or view that `part` reads, orders its rows."""
    for node in part.walk():
        if isinstance(node, exp.Query) and any(node.args.get(clause) for clause in _CLAUSES):
            return True
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and _is_ordered_name(node, context):
            return True
    return False


def _is_ordered_name(table: exp.Table, context: QueryContext) -> bool:
    cte = None if table.db else context.ctes.get(table.name.lower())
    if cte is not None:
        if not cte.ordered:
            cte.ordered.append(_has_order(cte.query, cte.context))
        return cte.ordered[0]
    name = ".".join((table.catalog or context.catalog, table.db or context.schema, table.name)).lower()
    view = context.views.get(name)
    if view is None or view[0] in context.inside:
        return False
    if name not in context.ordered_views:
        context.ordered_views[name] = _is_ordered_view(name, *view, context)
    return context.ordered_views[name]


def _is_ordered_view(name: str, spelled: str, text: ViewText, context: QueryContext) -> bool:
    catalog, schema, _ = name.split(".", 2)
    within = replace(
        context,
        catalog=text.catalog or catalog,
        schema=text.schema or schema,
        ctes={},
        inside=context.inside | {spelled},
    )
    return _has_order(parse_query(text.sql), within)
