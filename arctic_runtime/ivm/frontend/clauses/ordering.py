"""Refuses selects whose result may depend on the order of a subquery's rows.

SQL guarantees only the order of the outermost query, and the operator tree has no order at all. But Spark mostly keeps
the order of a subquery: over sorted rows `collect_list` returns a sorted list, and `row_number` breaks ties by the
order. Such a result could not be maintained.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.aggregate_functions import find_aggregate_function
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.clauses.clause_parts import walk_outside_queries
from arctic_runtime.ivm.frontend.functions import is_aggregate, parse_query
from arctic_runtime.ivm.frontend.scope import QueryContext, ViewText

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
