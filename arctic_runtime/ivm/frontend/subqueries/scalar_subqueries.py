"""Turns scalar subqueries, which return one value, into joins.

The subquery becomes the right side of a left join. A correlated subquery is grouped by the expressions that it compares
with the outer query; any other has one row, which is joined to all outer rows. If it is not proven to return at most
one row, the plan counts the rows, and raises an error when it is executed if Spark would raise one for the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Distinct, Join, Node, Projection, WindowColumns, list_columns
from arctic_runtime.ivm.algebra.unique import is_one_partner, is_unique
from arctic_runtime.ivm.frontend.clauses.limits import has_limit
from arctic_runtime.ivm.frontend.functions import get_value_over_no_rows, is_generator, walk_outside_queries
from arctic_runtime.ivm.frontend.scope import Derived, NameLookup, Names, QueryContext, SelectShape, project_shape
from arctic_runtime.ivm.frontend.subqueries.correlation import (
    check_inner_value,
    check_known,
    match_correlation,
    split_correlation,
)
from arctic_runtime.ivm.frontend.type_coercion import mark_equalities, mark_unlike

_SEVERAL_ROWS = "More than one row returned by a subquery used as an expression."
_INEXACT = ("float", "double")
_WITHOUT_ORDER = ("map", "variant", "struct", "array", "interval", "geography", "geometry")


def join_scalar_subquery(
    query: exp.Expr, node: Node, lookup: NameLookup, context: QueryContext
) -> tuple[exp.Expr, Node]:
    """Joins a scalar subquery to `node`; returns the expression that reads its value, and the joined node."""
    if not isinstance(query, exp.Query):
        raise NotMaintained("SCALAR_SUBQUERY", f"{query.key.upper()} in place of a subquery")
    if not isinstance(query, exp.Select) or has_limit(query):
        return _join_uncorrelated(context.derive(query, context, None), node, context.names)
    shape = context.shape(query, replace(context, around=node), lookup)
    if len(shape.items) != 1:
        raise NotMaintained("UNRESOLVED", "a scalar subquery with more than one column")
    is_own = set(list_columns(shape.node)).issuperset(list_used_columns(shape.items[0][1]))
    if not shape.pending and is_own:
        return _join_uncorrelated(project_shape(shape, context.names), node, context.names)
    if shape.groups == "none" and is_own:
        return _join_picked_row(shape, node, context.names)
    return _join_correlated(shape, node)


def _join_uncorrelated(derived: Derived, node: Node, names: Names) -> tuple[exp.Expr, Node]:
    """Joins an uncorrelated scalar subquery to every row, aggregated to one row if it may return none or several."""
    if len(derived.fields) != 1:
        raise NotMaintained("UNRESOLVED", "a scalar subquery with more than one column")
    inner, name = derived.node, derived.fields[0][1]
    if not has_one_row(inner):
        is_single = is_unique(mark_unlike(inner, names), ())
        of_type = names.types.get(name)
        if not is_single or (has_order(of_type) and of_type not in _INEXACT):
            one, value = _reduce_to_single_value(inner, (), name, names, is_counted=not is_single)
            return value, Join("left", node, one, None)
    return build_column(name), Join("left", node, inner, None)


def _reduce_to_single_value(
    node: Node, keys: Sequence[str], name: str, names: Names, is_counted: bool
) -> tuple[Node, exp.Expr]:
    """Aggregates `node` to one row for each group of `keys`; also returns the expression of the group's value.

    The value is that of the column `name`. If `is_counted`, the expression raises an error in Spark for a group of
    several rows; it has to be evaluated after the join, so that a group without an outer row raises no error. Raises
    NotMaintained if values of the column's type have no order, or if the type is not known.
    """
    of_type = names.types.get(name)
    if of_type is None or not has_order(of_type):
        raise NotMaintained(
            "SCALAR_SUBQUERY",
            "a scalar subquery that may return several rows, of a type whose values have no order or of an unknown "
            "one; an aggregate without GROUP BY returns one",
        )
    value, rows = names.make_fresh(name.rpartition("#")[0], of_type), names.make_fresh("rows", "bigint")
    made = ((value, exp.Max(this=build_column(name))), (rows, exp.Count(this=exp.Star(), big_int=True)))
    if not is_counted:
        return Aggregate(node, tuple(keys), made[:1]), build_column(value)
    error = exp.Anonymous(this="RAISE_ERROR", expressions=[exp.Literal.string(_SEVERAL_ROWS)])
    several = exp.GT(this=build_column(rows), expression=exp.Literal.number(1))
    only = exp.case().when(several, exp.cast(error, of_type, dialect="spark")).else_(build_column(value))
    return Aggregate(node, tuple(keys), made), only


def has_order(of_type: str | None) -> bool:
    """Whether values of a type are known to have an order, so that `max` is defined for them."""
    return of_type is not None and not of_type.startswith(_WITHOUT_ORDER) and "collate" not in of_type


def _join_picked_row(shape: SelectShape, node: Node, names: Names) -> tuple[exp.Expr, Node]:
    """Joins a correlated scalar subquery without aggregates.

    Unless an outer row is proven to match at most one row of the subquery, the rows are grouped, and counted so that
    the plan raises an error if there are several.
    """
    if any(is_generator(part) for part in walk_outside_queries(shape.items[0][1])):
        raise NotMaintained("SCALAR_SUBQUERY", "a generator such as explode in a correlated scalar subquery")
    derived = project_shape(shape, names)
    on = build_conjunction(derived.pending)
    check_known(on, node, derived.node)
    name = derived.fields[0][1]
    if is_one_partner(list_columns(node), mark_unlike(derived.node, names), on and mark_equalities(on, names)):
        return build_column(name), Join("left", node, derived.node, on)
    groups = split_correlation(derived.node, derived.pending, (name,), names)
    rows = Distinct(groups.node) if shape.distinct else groups.node
    groups_node, value = _reduce_to_single_value(rows, groups.keys, name, names, is_counted=True)
    return value, Join("left", node, groups_node, build_conjunction(groups.on))


def _join_correlated(shape: SelectShape, node: Node) -> tuple[exp.Expr, Node]:
    """Joins a correlated scalar subquery that aggregates; outer rows without a group get the values over no rows."""
    inner = shape.node
    if shape.groups != "one" or not shape.plain or not isinstance(inner, Aggregate):
        raise NotMaintained(
            "SCALAR_SUBQUERY",
            "a correlated scalar subquery other than one aggregate without GROUP BY, HAVING, windows and DISTINCT",
        )
    for condition in shape.pending:
        reads_inner = not set(list_columns(inner)).isdisjoint(list_used_columns(condition))
        if reads_inner and match_correlation(condition, set(list_columns(inner))) is None:
            raise NotMaintained(
                "SCALAR_SUBQUERY",
                "a correlated subquery that aggregates rows that it selects by conditions other than equalities",
            )
    value = _apply_empty_default(shape.items[0][1], inner)
    on = build_conjunction(shape.pending)
    check_known(on, node, inner)
    joined = Join("left", node, inner, on)
    return check_inner_value(value, joined), joined


def _apply_empty_default(value: exp.Expr, inner: Aggregate) -> exp.Expr:
    made = dict(inner.aggregates)
    keys = set(inner.keys)

    def visit_part(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in keys:
            raise NotMaintained(
                "SCALAR_SUBQUERY", "a correlated scalar subquery that selects a column without aggregating it"
            )
        if not isinstance(part, exp.Column) or part.name not in made:
            return part
        empty = get_value_over_no_rows(made[part.name])
        if empty is None:
            raise NotMaintained(
                "SCALAR_SUBQUERY",
                "a correlated scalar subquery with an aggregate whose value over no rows is unknown",
            )
        return part if isinstance(empty, exp.Null) else exp.Coalesce(this=part.copy(), expressions=[empty])

    return value.transform(visit_part)


def has_one_row(node: Node) -> bool:
    return (
        has_one_row(node.child)
        if isinstance(node, Projection | WindowColumns)
        else isinstance(node, Aggregate) and not node.keys
    )
