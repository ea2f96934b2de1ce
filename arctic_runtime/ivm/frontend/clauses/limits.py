"""Turns LIMIT and OFFSET of a query whose ORDER BY has no ties into a condition on the row number.

With ties, or without an ORDER BY, SQL does not determine the rows of the result, so NotMaintained is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column, unwrap_parens
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Filter, WindowColumns
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.clauses.clause_parts import check_clause_args
from arctic_runtime.ivm.frontend.functions import is_aggregate
from arctic_runtime.ivm.frontend.scope import Derived, Names, find_matching_fields
from arctic_runtime.ivm.frontend.type_coercion import mark_unlike

_NEEDED = "without an ORDER BY that tells all rows apart, as by a primary key"
_ORDER = "__arctic_order_"
_NUMBER = "__arctic_limit"


def has_limit(query: exp.Query) -> bool:
    return bool(query.args.get("limit") or query.args.get("offset"))


def derive_limited(query: exp.Query, derive: Callable[[exp.Query], Derived], names: Names) -> Derived:
    """Builds the tree of a query with LIMIT or OFFSET; `derive` builds the tree of the query without these clauses."""
    least, most = _read_count(query, "offset"), _read_count(query, "limit")
    whole = query.copy()
    for part in ("limit", "offset", "order"):
        whole.set(part, None)
    if least is None and most is None:
        return derive(whole)
    order = query.args.get("order")
    if order is None:
        raise NotMaintained("LIMIT", f"{_get_clause_name(query)} {_NEEDED}")
    asked = [_resolve_order_item(part, whole) for part in order.expressions]
    hidden = [part for part in asked if isinstance(part, exp.Expr)]
    if hidden:
        _add_hidden_columns(whole, hidden)
    derived = derive(whole)
    if derived.pending:
        raise NotMaintained("LIMIT", f"{_get_clause_name(query)} in a correlated subquery")
    shown = derived.fields[: len(derived.fields) - len(hidden)]
    added = iter(derived.fields[len(shown) :])
    by = [_find_field(part, shown) if isinstance(part, int | str) else next(added)[1] for part in asked]
    if not is_unique(mark_unlike(derived.node, names), by):
        raise NotMaintained("LIMIT", f"{_get_clause_name(query)} {_NEEDED}")
    return Derived(_filter_first_rows(derived, _resolve_order(order, by), least or 0, most, names), shown)


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
