"""Queries inside expressions, as joins.

A membership (`in`, `exists`) that has to hold is a semi join, one that must not hold an anti join. A query that gives
one value is the right side of a left join: grouped by what it is correlated by, or with one row for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction
from arctic_runtime.ivm.algebra.expressions import parts
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Filter, Join, Node, SemiJoin
from arctic_runtime.ivm.frontend.correlation import check_known, within
from arctic_runtime.ivm.frontend.grouping import calls
from arctic_runtime.ivm.frontend.limits import has_limit
from arctic_runtime.ivm.frontend.memberships import Membership, contained, excluded
from arctic_runtime.ivm.frontend.scalar_subqueries import has_one_row, scalar
from arctic_runtime.ivm.frontend.scope import Context, Derived, Lookup, project


def has_query(expression: exp.Expr) -> bool:
    """Whether there is a query inside an expression."""
    return type(expression) is not exp.Column and any(isinstance(part, exp.Query) for part in parts(expression))


def restrict(node: Node, conditions: Sequence[exp.Expr], lookup: Lookup, context: Context) -> Node:
    """The rows for which all conditions hold, each one with a query in it."""
    for condition in conditions:
        negated = isinstance(condition, exp.Not)
        bare = condition.this.unnest() if negated else condition
        if isinstance(bare, exp.Exists):
            node = _exists(node, bare, negated, lookup, replace(context, around=node))
        elif isinstance(bare, exp.In) and bare.args.get("query"):
            node = _in(node, bare, negated, lookup, replace(context, around=node))
        else:
            value, lifted = lift(condition, node, lookup, context)
            node = _judged(node, lifted, within(value, lifted))
    return node


def _judged(node: Node, lifted: Node, condition: exp.Expr) -> Node:
    """The rows for which a condition is true that reads what was `lifted` beside them.

    Nobody else reads that, so values that are the same for all rows are a partner that a row has or has not.
    """
    values: list[Node] = []
    below = lifted
    while below is not node and isinstance(below, Join) and below.on is None and has_one_row(below.right):
        values.append(below.right)
        below = below.left
    if below is not node or not values:
        return Filter(lifted, condition)
    return SemiJoin("semi", node, reduce(_beside, reversed(values)), condition)


def _beside(left: Node, right: Node) -> Node:
    return Join("inner", left, right, None)


def lift(expression: exp.Expr, node: Node, lookup: Lookup, context: Context) -> tuple[exp.Expr, Node]:
    """The expression with columns in the place of its queries, and the node with these columns."""
    if type(expression) is exp.Column or not any(map(_is_query, parts(expression))):
        return expression, node
    holder = exp.Paren(this=expression.copy())
    for found in list(holder.walk(prune=_is_query)):
        if _is_query(found):
            value, node = _value(found, node, lookup, context)
            found.replace(exp.paren(value))
    return holder.this.pop(), node


def _is_query(node: exp.Expr) -> bool:
    is_predicate = isinstance(node, exp.Exists | exp.Any | exp.All)
    return isinstance(node, exp.Query) or is_predicate or bool(isinstance(node, exp.In) and node.args.get("query"))


def _value(found: exp.Expr, node: Node, lookup: Lookup, context: Context) -> tuple[exp.Expr, Node]:
    if isinstance(found, exp.Subquery):
        return scalar(found.unnest(), node, lookup, context)
    if isinstance(found, exp.Exists):
        value, node = scalar(_counting(found.this), node, lookup, context)
        return exp.GT(this=exp.paren(value), expression=exp.Literal.number(0)), node
    if isinstance(found, exp.In):
        return contained(node, _membership(found, lookup, replace(context, around=node)), found, context.names)
    raise NotMaintained("SUBQUERY", "ANY or ALL with a subquery; write EXISTS instead")


def _counting(query: exp.Expr) -> exp.Select:
    """How many rows a query has, as a query."""
    bare = query.unnest() if isinstance(query, exp.Subquery) else query
    refused = ("group", "having", "limit", "offset", "distinct")
    if not isinstance(bare, exp.Select) or any(bare.args.get(part) for part in refused) or calls(bare.expressions):
        raise NotMaintained(
            "SUBQUERY", "EXISTS in an expression, over a subquery with GROUP BY, HAVING, DISTINCT, LIMIT or aggregates"
        )
    found = bare.copy()
    found.set("expressions", [exp.Count(this=exp.Star(), big_int=True)])
    return found


def _exists(node: Node, found: exp.Exists, negated: bool, lookup: Lookup, context: Context) -> Node:
    inner = found.this.unnest() if isinstance(found.this, exp.Subquery) else found.this
    derived = _member_query(_without_list(inner), lookup, context)
    return _semi(node, derived, (), negated)


def _without_list(query: exp.Expr) -> exp.Expr:
    """The same rows with nothing selected, which for EXISTS is as good."""
    is_plain = isinstance(query, exp.Select) and not query.args.get("group") and not calls(query.expressions)
    if not is_plain or query.args.get("having"):
        return query
    found = query.copy()
    found.set("expressions", [exp.alias_(exp.Literal.number(1), "one")])
    found.set("distinct", None)
    return found


def _in(node: Node, found: exp.In, negated: bool, lookup: Lookup, context: Context) -> Node:
    member = _membership(found, lookup, context)
    return excluded(node, member, context.names) if negated else _semi(node, member.derived, member.equal, False)


def _membership(found: exp.In, lookup: Lookup, context: Context) -> Membership:
    bare = found.this.unnest()
    left = list(bare.expressions) if isinstance(bare, exp.Tuple) else [found.this]
    if any(map(has_query, left)):
        raise NotMaintained("SUBQUERY", "a subquery on the left of IN")
    derived = _member_query(found.args["query"].unnest(), lookup, context)
    if len(left) != len(derived.fields):
        raise NotMaintained("UNRESOLVED", f"IN compares {len(left)} values to {len(derived.fields)} columns")
    return Membership(derived, tuple(left))


def _member_query(query: exp.Expr, lookup: Lookup, context: Context) -> Derived:
    if not isinstance(query, exp.Select) or has_limit(query):
        return context.derive(query, context, None) if isinstance(query, exp.Query) else _refuse(query)
    shape = context.shape(query, context, lookup)
    if shape.groups == "one" and shape.pending:
        raise NotMaintained("SUBQUERY", "IN or EXISTS with a correlated subquery that aggregates without GROUP BY")
    return project(shape, context.names)


def _refuse(query: exp.Expr) -> Derived:
    raise NotMaintained("SUBQUERY", f"{query.key.upper()} in place of a subquery")


def _semi(node: Node, derived: Derived, equal: Sequence[exp.Expr], negated: bool) -> Node:
    on = conjunction([*derived.pending, *equal])
    check_known(on, node, derived.node)
    return SemiJoin("anti" if negated else "semi", node, derived.node, on)
